// Tokens as discs. Two frames lie on the graphics card and the shader goes from one to the other,
// so that nothing is copied or allocated while the picture moves between frames.

import {
  BufferAttribute,
  BufferGeometry,
  DynamicDrawUsage,
  NoBlending,
  Points,
  ShaderMaterial,
} from "three";
import { categoryColour } from "metastable/identity";
import { SCALE } from "metastable/palette";

const VERTEX = `
attribute vec3 ahead;
attribute vec3 tint;
attribute float girth;
uniform float mixing, pixels, round;
uniform vec3 paper;
varying vec3 ground, ink;
varying float size;
void main() {
  vec3 p = mix(position, ahead, mixing);
  if (round > 0.5) p *= mix(length(position), length(ahead), mixing) / max(length(p), 1e-6);
  vec4 seen = modelViewMatrix * vec4(p, 1.0);
  vec3 outward = normalize(normalMatrix * p);
  float front = round > 1.5 ? smoothstep(-0.12, 0.22, dot(outward, normalize(-seen.xyz))) : 1.0;
  float share = mix(0.46, 1.0, front); // behind, tokens fade into the paper
  ground = (1.0 - share) * paper;
  ink = share * tint;
  gl_Position = projectionMatrix * seen;
  // A large disc covers what stands inside it: depth is that of its front.
  vec4 near = projectionMatrix * vec4(seen.xy, seen.z + 0.5 * girth, 1.0);
  gl_Position.z = near.z / near.w * gl_Position.w;
  gl_PointSize = size = max(2.0, pixels * girth / -seen.z);
}`;

// The edge goes into the paper within a pixel: smooth without samples, blending or an order of tokens.
const FRAGMENT = `
uniform vec3 paper;
varying vec3 ground, ink;
varying float size;
void main() {
  vec2 at = 2.0 * gl_PointCoord - 1.0;
  float square = dot(at, at);
  float cover = 0.25 * (1.0 - square) * size + 0.5;
  if (cover <= 0.2) discard;
  vec3 rimmed = ground + (1.0 - 0.28 * square * square) * ink;
  gl_FragColor = vec4(mix(paper, rimmed, min(1.0, cover)), 1.0);
}`;

const MOST_GIRTH = 0.17;

export class Tokens {
  constructor(capacity) {
    this.geometry = new BufferGeometry();
    this.uniforms = {
      mixing: { value: 0 },
      pixels: { value: 1 },
      round: { value: 0 },
      paper: { value: null },
    };
    const material = new ShaderMaterial({
      vertexShader: VERTEX,
      fragmentShader: FRAGMENT,
      uniforms: this.uniforms,
      blending: NoBlending,
    });
    this.object = new Points(this.geometry, material);
    this.object.frustumCulled = false;
    this.rgb = [0, 0, 0];
    this.chosen = -1; // the token in hand, drawn larger
    this.reserve(capacity);
  }

  reserve(capacity) {
    this.capacity = capacity;
    for (const [name, size] of [
      ["position", 3],
      ["ahead", 3],
      ["tint", 3],
      ["girth", 1],
    ]) {
      const attribute = new BufferAttribute(new Float32Array(capacity * size), size);
      attribute.setUsage(DynamicDrawUsage);
      this.geometry.setAttribute(name, attribute);
    }
    this.geometry.setDrawRange(0, 0);
  }

  /** Lay frame `now` and the one after it on the card. */
  show(now, next, colouring, album) {
    if (now.count > this.capacity) this.reserve(Math.ceil(1.25 * now.count));
    const { position, ahead, tint, girth } = this.geometry.attributes;
    // After a merger tokens of two frames are not the same ones: the picture steps instead.
    const target = next && next.count === now.count ? next : now;
    position.array.set(now.positions);
    ahead.array.set(target.positions);
    this.#colour(now, colouring, tint.array, album);
    this.#size(now, girth.array, album);
    if (this.chosen >= 0) girth.array[this.chosen] *= 1.7;
    for (const attribute of [position, ahead, tint, girth]) {
      attribute.clearUpdateRanges();
      attribute.addUpdateRange(0, now.count * attribute.itemSize);
      attribute.needsUpdate = true;
    }
    this.geometry.setDrawRange(0, now.count);
  }

  #colour(frame, colouring, out, album) {
    const { cluster, mass, speed, count, colours } = frame;
    const least = 1 / Math.max(2, album.tokens);
    for (let i = 0; i < count; i++) {
      if (colouring === "cluster" || (colouring === "speed" && !speed)) {
        categoryColour(cluster ? colours.palette[cluster[i]] : 0, this.rgb);
        out[3 * i] = this.rgb[0] / 255;
        out[3 * i + 1] = this.rgb[1] / 255;
        out[3 * i + 2] = this.rgb[2] / 255;
        continue;
      }
      const share =
        colouring === "mass"
          ? logShare(mass ? mass[i] : cluster ? colours.shares[cluster[i]] : least, least, 1)
          : logShare(speed[i], 1e-5 * album.fastest, album.fastest);
      const at = 3 * Math.round(255 * share);
      out[3 * i] = SCALE[at] / 255;
      out[3 * i + 1] = SCALE[at + 1] / 255;
      out[3 * i + 2] = SCALE[at + 2] / 255;
    }
  }

  /** A token grows with its mass; tokens that cover each other look, and grow, like one. */
  #size({ count, mass, cluster, positions, colours }, out, album) {
    const plain = tokenGirth(album.tokens);
    const grown = (tokens) => Math.min(MOST_GIRTH, plain * Math.max(1, Math.cbrt(tokens)));
    if (mass) {
      for (let i = 0; i < count; i++) out[i] = grown(mass[i] * album.tokens);
      return;
    }
    out.fill(plain, 0, count);
    for (const group of colours.large) {
      // One disc of them all, the middle one: hundreds of large discs on one place cost as many.
      let [tokens, middle, least] = [0, -1, (0.3 * plain) ** 2];
      for (let i = 0; i < count; i++) {
        if (cluster[i] !== group.label) continue;
        const away =
          (positions[3 * i] - group.x) ** 2 +
          (positions[3 * i + 1] - group.y) ** 2 +
          (positions[3 * i + 2] - group.z) ** 2;
        if (away < (0.3 * plain) ** 2) tokens++;
        if (away < least) [middle, least] = [i, away];
      }
      if (middle >= 0) out[middle] = grown(tokens);
    }
  }
}

function logShare(value, least, most) {
  if (!(value > least)) return 0;
  return Math.min(1, Math.log(value / least) / Math.log(most / least));
}

/** Diameter of one token: as large as fits when all are spread out. */
export const tokenGirth = (tokens) => Math.min(0.07, Math.max(0.017, 1.5 / Math.sqrt(tokens)));
