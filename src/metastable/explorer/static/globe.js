// What the tokens live on, drawn faintly: a graticule, a circle, or the axes of a plane or space.

import {
  BufferAttribute,
  BufferGeometry,
  DoubleSide,
  Mesh,
  NoBlending,
  ShaderMaterial,
  Vector2,
} from "three";

// A line is a strip two pixels wide whose sides go into the paper: smooth without samples.
const VERTEX = `
attribute vec3 beyond; // further along the line
attribute float side;
uniform float round;
uniform vec2 half_size; // of the canvas, in pixels
varying float ink, across;
void main() {
  vec4 seen = modelViewMatrix * vec4(position, 1.0);
  float facing = dot(normalize(normalMatrix * position), normalize(-seen.xyz));
  ink = round > 1.5 ? mix(0.22, 0.85, smoothstep(-0.1, 0.3, facing)) : 1.0;
  gl_Position = projectionMatrix * seen;
  vec4 ahead = projectionMatrix * (modelViewMatrix * vec4(beyond, 1.0));
  vec2 along = half_size * (ahead.xy / ahead.w - gl_Position.xy / gl_Position.w);
  vec2 normal = vec2(-along.y, along.x) / max(length(along), 1e-6);
  gl_Position.xy += side * normal / half_size * gl_Position.w;
  across = side;
}`;

const FRAGMENT = `
uniform vec3 colour, paper;
varying float ink, across;
void main() { gl_FragColor = vec4(mix(paper, colour, ink * (1.0 - abs(across))), 1.0); }`;

export class Globe {
  constructor() {
    this.uniforms = {
      colour: { value: null },
      paper: { value: null },
      round: { value: 2 },
      half_size: { value: new Vector2(1, 1) },
    };
    this.object = new Mesh(
      new BufferGeometry(),
      new ShaderMaterial({
        vertexShader: VERTEX,
        fragmentShader: FRAGMENT,
        uniforms: this.uniforms,
        blending: NoBlending,
        side: DoubleSide,
        depthTest: false,
        depthWrite: false,
      }),
    );
    this.object.frustumCulled = false;
    this.object.renderOrder = -1; // before all tokens
  }

  show(view) {
    const lines = { sphere: graticule, circle, plane, space }[view]();
    this.object.geometry.dispose();
    this.object.geometry = strips(lines);
    this.uniforms.round.value = view === "sphere" ? 2 : 0;
  }
}

/** Four corners for each segment: at both ends one on each side. */
function strips(lines) {
  const count = lines.length / 6;
  const position = new Float32Array(12 * count);
  const beyond = new Float32Array(12 * count);
  const side = new Float32Array(4 * count);
  const index = new Uint16Array(6 * count);
  for (let k = 0; k < count; k++) {
    const [from, to] = [lines.slice(6 * k, 6 * k + 3), lines.slice(6 * k + 3, 6 * k + 6)];
    position.set([...from, ...from, ...to, ...to], 12 * k);
    const next = to.map((value, c) => 2 * value - from[c]);
    beyond.set([...to, ...to, ...next, ...next], 12 * k);
    side.set([-1, 1, -1, 1], 4 * k);
    index.set([0, 1, 2, 2, 1, 3].map((corner) => 4 * k + corner), 6 * k);
  }
  const geometry = new BufferGeometry();
  geometry.setAttribute("position", new BufferAttribute(position, 3));
  geometry.setAttribute("beyond", new BufferAttribute(beyond, 3));
  geometry.setAttribute("side", new BufferAttribute(side, 1));
  geometry.setIndex(new BufferAttribute(index, 1));
  return geometry;
}

function arc(lines, pointAt, parts = 64) {
  for (let k = 0; k < parts; k++) {
    lines.push(...pointAt((2 * Math.PI * k) / parts), ...pointAt((2 * Math.PI * (k + 1)) / parts));
  }
}

function graticule() {
  const lines = [];
  for (let degrees = -60; degrees <= 60; degrees += 30) {
    const phi = (degrees * Math.PI) / 180;
    arc(lines, (a) => [Math.cos(phi) * Math.cos(a), Math.cos(phi) * Math.sin(a), Math.sin(phi)]);
  }
  for (let degrees = 0; degrees < 180; degrees += 30) {
    const t = (degrees * Math.PI) / 180;
    arc(lines, (a) => [Math.cos(a) * Math.cos(t), Math.cos(a) * Math.sin(t), Math.sin(a)]);
  }
  return lines;
}

function circle() {
  const lines = [];
  arc(lines, (a) => [Math.cos(a), Math.sin(a), 0], 256);
  for (let k = 0; k < 12; k++) {
    const [x, y] = [Math.cos((k * Math.PI) / 6), Math.sin((k * Math.PI) / 6)];
    lines.push(0.97 * x, 0.97 * y, 0, 0.94 * x, 0.94 * y, 0);
  }
  return lines;
}

function plane() {
  const lines = [-1.2, 0, 0, 1.2, 0, 0, 0, -1.2, 0, 0, 1.2, 0];
  for (const a of [-1, -0.5, 0.5, 1]) {
    lines.push(a, -0.02, 0, a, 0.02, 0, -0.02, a, 0, 0.02, a, 0);
  }
  return lines;
}

function space() {
  const lines = [];
  for (const a of [-1, 1]) {
    for (const b of [-1, 1]) lines.push(-1, a, b, 1, a, b, a, -1, b, a, 1, b, a, b, -1, a, b, 1);
  }
  return lines;
}
