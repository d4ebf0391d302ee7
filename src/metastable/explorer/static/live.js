// One running experiment: start, frames, end. A frame is acknowledged when the page has had time to
// draw, so that a slow page slows the computation and not the memory.

import { decodePacket } from "metastable/packet";
import { liveAddress } from "metastable/server";

const ANSWERS_APART = 20; // milliseconds

export class Live {
  /** `on` holds started(message), frame(packet), judging(), finished(message), failed(sentence). */
  constructor(on) {
    this.on = on;
    this.socket = null;
    this.running = false;
    this.listening = false; // frames of a run that was replaced are dropped until "started"
    this.owed = [];
    this.answered = 0;
  }

  start(message) {
    this.stop();
    this.running = true;
    this.listening = false;
    const order = JSON.stringify({ type: "start", ...message });
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(order);
      return;
    }
    this.#connect(order);
  }

  stop() {
    if (this.running) this.#say({ type: "stop" });
    this.running = this.listening = false;
    this.owed.length = 0;
  }

  /** No more frames: what there is becomes the whole run. */
  end() {
    if (this.running) this.#say({ type: "stop" });
  }

  /** Called once for each picture drawn; a fast screen must not flood the server with answers. */
  acknowledge(now) {
    if (!this.owed.length || now - this.answered < ANSWERS_APART) return;
    this.answered = now;
    for (let i = 0; i < this.owed.length; i++) this.#say({ type: "ack", index: this.owed[i] });
    this.owed.length = 0;
  }

  #connect(order) {
    this.socket?.close();
    const socket = new WebSocket(liveAddress());
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => socket.send(order);
    socket.onmessage = (event) => {
      if (socket === this.socket) this.#hear(event.data);
    };
    socket.onclose = (event) => {
      if (socket !== this.socket) return;
      this.socket = null;
      if (!this.running) return;
      this.running = this.listening = false;
      this.on.failed(
        event.reason || "The connection to the server was lost; press play to start again.",
      );
    };
  }

  #say(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  #hear(data) {
    if (!this.running) return;
    if (typeof data !== "string") {
      if (!this.listening) return;
      const packet = decodePacket(data);
      this.owed.push(packet.header.index);
      this.on.frame(packet);
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "started") {
      this.listening = true;
      this.on.started(message);
    } else if (message.type === "finished" && this.listening) {
      this.running = this.listening = false;
      this.on.finished(message);
    } else if (message.type === "judging" && this.listening) {
      this.on.judging();
    } else if (message.type === "error") {
      this.running = this.listening = false;
      this.on.failed(message.error);
    }
  }
}
