// The way each token came: a fading line through its last frames. Every vertex slides along the
// line with the same share of a frame as the tokens do.

import {
  BufferAttribute,
  BufferGeometry,
  DynamicDrawUsage,
  LineSegments,
  ShaderMaterial,
} from "three";

const STEPS = 20;
const MOST = 1000; // of more tokens every k-th has one

const VERTEX = `
attribute vec3 ahead;
attribute vec3 tint;
attribute float age;
uniform float mixing, round;
varying vec3 colour;
varying float ink;
void main() {
  vec3 p = mix(position, ahead, mixing);
  if (round > 0.5) p *= mix(length(position), length(ahead), mixing) / max(length(p), 1e-6);
  vec4 seen = modelViewMatrix * vec4(p, 1.0);
  float facing = dot(normalize(normalMatrix * p), normalize(-seen.xyz));
  ink = (1.0 - age) * (round > 1.5 ? mix(0.12, 0.75, smoothstep(-0.12, 0.22, facing)) : 0.7);
  colour = tint;
  gl_Position = projectionMatrix * seen;
}`;

const FRAGMENT = `
varying vec3 colour;
varying float ink;
void main() { gl_FragColor = vec4(colour, ink); }`;

export class Trails {
  constructor() {
    const vertices = MOST * STEPS * 2;
    this.geometry = new BufferGeometry();
    for (const [name, size] of [
      ["position", 3],
      ["ahead", 3],
      ["tint", 3],
      ["age", 1],
    ]) {
      const attribute = new BufferAttribute(new Float32Array(vertices * size), size);
      attribute.setUsage(DynamicDrawUsage);
      this.geometry.setAttribute(name, attribute);
    }
    this.uniforms = { mixing: { value: 0 }, round: { value: 0 } };
    this.object = new LineSegments(
      this.geometry,
      new ShaderMaterial({
        vertexShader: VERTEX,
        fragmentShader: FRAGMENT,
        uniforms: this.uniforms,
        transparent: true,
        depthWrite: false,
      }),
    );
    this.object.frustumCulled = false;
    this.object.visible = false;
  }

  /** Trails that end in frame `index`, in the colours the tokens have now. */
  show(album, index, tints) {
    const now = album.frames[index];
    const stride = Math.max(1, Math.ceil(now.count / MOST));
    const { position, ahead, tint, age } = this.geometry.attributes;
    let vertex = 0;
    for (let s = 0; s < STEPS; s++) {
      const to = album.frames[index - s];
      const from = album.frames[index - s - 1];
      if (!from || from.count !== now.count || to.count !== now.count) break;
      let beyond = album.frames[index - s + 1];
      if (!beyond || beyond.count !== now.count) beyond = to;
      for (let i = 0; i < now.count; i += stride) {
        for (let end = 0; end < 2; end++, vertex++) {
          const here = end ? to.positions : from.positions;
          const there = end ? beyond.positions : to.positions;
          for (let c = 0; c < 3; c++) {
            position.array[3 * vertex + c] = here[3 * i + c];
            ahead.array[3 * vertex + c] = there[3 * i + c];
            tint.array[3 * vertex + c] = tints[3 * i + c];
          }
          age.array[vertex] = (s + 1 - end) / STEPS;
        }
      }
    }
    for (const attribute of [position, ahead, tint, age]) {
      attribute.clearUpdateRanges();
      attribute.addUpdateRange(0, vertex * attribute.itemSize);
      attribute.needsUpdate = true;
    }
    this.geometry.setDrawRange(0, vertex);
  }
}
