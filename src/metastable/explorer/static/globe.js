// What the tokens live on, drawn faintly: a graticule, a circle, or the axes of a plane or space.

import { BufferAttribute, BufferGeometry, LineSegments, ShaderMaterial } from "three";

const VERTEX = `
uniform float round;
varying float ink;
void main() {
  vec4 seen = modelViewMatrix * vec4(position, 1.0);
  float facing = dot(normalize(normalMatrix * position), normalize(-seen.xyz));
  ink = round > 1.5 ? mix(0.22, 0.85, smoothstep(-0.1, 0.3, facing)) : 1.0;
  gl_Position = projectionMatrix * seen;
}`;

const FRAGMENT = `
uniform vec3 colour;
varying float ink;
void main() { gl_FragColor = vec4(colour, ink); }`;

export class Globe {
  constructor() {
    this.uniforms = { colour: { value: null }, round: { value: 2 } };
    this.object = new LineSegments(
      new BufferGeometry(),
      new ShaderMaterial({
        vertexShader: VERTEX,
        fragmentShader: FRAGMENT,
        uniforms: this.uniforms,
        transparent: true,
        depthWrite: false,
      }),
    );
    this.object.renderOrder = -1;
  }

  show(view) {
    const lines = { sphere: graticule, circle, plane, space }[view]();
    this.object.geometry.dispose();
    this.object.geometry = new BufferGeometry();
    this.object.geometry.setAttribute("position", new BufferAttribute(new Float32Array(lines), 3));
    this.uniforms.round.value = view === "sphere" ? 2 : 0;
  }
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
