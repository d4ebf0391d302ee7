// Questions to the server. Every answer is JSON or a packet; every refusal is one sentence.

import { decodePacket } from "metastable/packet";

export const autoplay = false; // the reader decides when the server has work

const token = new URLSearchParams(location.search).get("token");

export const withToken = (path) =>
  token ? `${path}${path.includes("?") ? "&" : "?"}token=${encodeURIComponent(token)}` : path;

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(withToken(path), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer; start it again with `metastable explore`.");
  }
  if (answer.ok) return answer;
  const refusal = await answer.json().catch(() => ({}));
  const complaint = new Error(refusal.error ?? `The server answered ${answer.status}.`);
  complaint.status = answer.status;
  throw complaint;
}

const post = (path, body, signal) =>
  ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
const json = async (path) => (await ask(path)).json();
const slashes = (name) => name.split("/").map(encodeURIComponent).join("/");

export const about = () => json("api/about");
export const folder = () => json("api/folder");
export const sweep = (name) => json(`api/sweep/${slashes(name)}`);
export const cell = (name, index) => json(`api/sweep/${slashes(name)}/cell/${index}`);
export const recording = async (name) =>
  (await ask(`api/recording/${slashes(name)}`)).arrayBuffer();
export const predict = async (spec, fine, signal) =>
  (await post("api/predict", { spec, fine }, signal)).json();
export const place = async (spec, signal) =>
  decodePacket(await (await post("api/place", { spec }, signal)).arrayBuffer());
export const exported = async (spec) => (await post("api/export", { spec })).json();
export const downloadAddress = (run, kind) => withToken(`api/download/${run}.${kind}`);

export function liveAddress() {
  const address = new URL(withToken("api/live"), document.baseURI);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.hash = "";
  return address.href;
}
