// Packets: u32 length of a JSON header, the header, then arrays. Recordings: packets, each after
// its own u32 length. All little-endian.

const KINDS = {
  f4: Float32Array,
  f8: Float64Array,
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
};
const text = new TextDecoder();

/** {header, arrays} of one packet; the arrays are views into `buffer`, which must be its own. */
export function decodePacket(buffer) {
  if (buffer.byteLength < 4) throw new Error("A packet ends before it begins.");
  const length = new DataView(buffer).getUint32(0, true);
  if (4 + length > buffer.byteLength)
    throw new Error("A packet's header is longer than the packet.");
  const header = JSON.parse(text.decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  let at = Math.ceil((4 + length) / 8) * 8;
  for (const [name, kind, shape] of header.arrays ?? []) {
    const Kind = KINDS[kind];
    if (!Kind) throw new Error(`A packet holds an array of unknown type ${kind}.`);
    const size = shape.reduce((a, b) => a * b, 1);
    if (at + size * Kind.BYTES_PER_ELEMENT > buffer.byteLength) {
      throw new Error(`A packet ends inside its array ${name}.`);
    }
    arrays[name] = new Kind(buffer, at, size);
    at += Math.ceil((size * Kind.BYTES_PER_ELEMENT) / 8) * 8;
  }
  return { header, arrays };
}

/** {head, frames, end} of a whole recording; a file cut short keeps the frames it has. */
export function decodeRecording(buffer) {
  const view = new DataView(buffer);
  const recording = { head: null, frames: [], end: null };
  let at = 0;
  while (at + 4 <= buffer.byteLength) {
    const length = view.getUint32(at, true);
    if (length < 4 || at + 4 + length > buffer.byteLength) break;
    const packet = decodePacket(buffer.slice(at + 4, at + 4 + length));
    if (packet.header.kind === "head") recording.head = packet.header;
    else if (packet.header.kind === "frame") recording.frames.push(packet);
    else if (packet.header.kind === "end") recording.end = packet.header;
    at += 4 + length;
  }
  if (!recording.head || !recording.frames.length) {
    throw new Error("This file is not a recording of Metastable: it needs a head and a frame.");
  }
  return recording;
}

/** The recording a stand-alone page carries inside itself, or null. */
export function embeddedRecording() {
  const base64 = document.getElementById("recording")?.textContent.trim();
  if (!base64) return null;
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)).buffer;
}
