// The scene: globe, tokens, trails, camera. It draws only when something has changed.

import {
  Color,
  Group,
  PerspectiveCamera,
  Raycaster,
  Scene,
  Vector2,
  Vector3,
  WebGLRenderer,
} from "three";
import { Globe } from "metastable/globe";
import { Orbit } from "metastable/orbit";
import { themeColours } from "metastable/palette";
import { Tokens } from "metastable/points";
import { Trails } from "metastable/trails";

const ROUND = { sphere: 2, circle: 1, plane: 0, space: 0 };

/** Whether a graphics card draws. A processor takes twice as long for pictures with samples. */
function onCard() {
  const gl = document.createElement("canvas").getContext("webgl2");
  const named = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = named ? gl.getParameter(named.UNMASKED_RENDERER_WEBGL) : "";
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}

export class Stage {
  constructor(canvas, taken) {
    this.canvas = canvas;
    const context = canvas.getContext("webgl2", {
      alpha: false, // opaque: three.js would ask for a canvas that the page has to blend
      antialias: onCard(),
      powerPreference: "high-performance",
    });
    this.renderer = new WebGLRenderer({ canvas, context });
    this.renderer.outputColorSpace = "srgb-linear"; // colours are given as they shall appear
    this.scene = new Scene();
    this.camera = new PerspectiveCamera(33, 1, 0.1, 50);
    this.world = new Group();
    this.scene.add(this.world);
    this.globe = new Globe();
    this.trails = new Trails();
    this.tokens = new Tokens(4096);
    this.world.add(this.globe.object, this.trails.object, this.tokens.object);
    this.paper = new Color();
    this.line = new Color();
    this.tokens.uniforms.paper.value = this.globe.uniforms.paper.value = this.paper;
    this.globe.uniforms.colour.value = this.line;
    this.orbit = new Orbit(canvas, () => (this.dirty = true), taken);
    this.ray = new Raycaster();
    this.pointer = new Vector2();
    this.place = new Vector3();
    this.drawn = 0;
    this.dirty = true;
    this.shown = { now: null, next: null };
    this.setView("sphere");
    this.recolour();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    this.resize();
  }

  setView(view) {
    this.view = view;
    this.globe.show(view);
    this.tokens.uniforms.round.value = this.trails.uniforms.round.value = ROUND[view];
    // North is up on the sphere; the circle and the plane face the reader.
    this.world.rotation.x = view === "sphere" || view === "space" ? -Math.PI / 2 : 0;
    this.orbit.home(view);
    this.dirty = true;
  }

  recolour() {
    const colours = themeColours();
    this.paper.setStyle(colours.card, "srgb-linear");
    this.line.setStyle(colours.line, "srgb-linear");
    this.renderer.setClearColor(this.paper, 1);
    this.dirty = true;
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    this.renderer.setPixelRatio(Math.min(2, window.devicePixelRatio));
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    // The unit ball fits the shorter side.
    const half = Math.tan((33 * Math.PI) / 360);
    this.camera.fov = (360 / Math.PI) * Math.atan(half * Math.max(1, height / width));
    this.camera.updateProjectionMatrix();
    const scale = this.camera.projectionMatrix.elements[5];
    const ratio = this.renderer.getPixelRatio();
    this.tokens.uniforms.pixels.value = 0.5 * height * ratio * scale;
    this.globe.uniforms.half_size.value.set(0.5 * width * ratio, 0.5 * height * ratio);
    this.dirty = true;
  }

  /** Show an album at a frame and a share of the way to the next. */
  show(album, index, share, colouring, trails, force = false) {
    const now = album.frames[index];
    const next = album.frames[index + 1] ?? null;
    if (force || this.shown.now !== now || this.shown.next !== next) {
      this.shown.now = now;
      this.shown.next = next;
      this.tokens.show(now, next, colouring, album);
      this.trails.object.visible = trails;
      if (trails) this.trails.show(album, index, this.tokens.geometry.attributes.tint.array);
      this.dirty = true;
    }
    if (this.tokens.uniforms.mixing.value !== share) {
      this.tokens.uniforms.mixing.value = this.trails.uniforms.mixing.value = share;
      this.dirty = true;
    }
  }

  clear() {
    this.tokens.geometry.setDrawRange(0, 0);
    this.trails.object.visible = false;
    this.shown = { now: null, next: null };
    this.dirty = true;
  }

  draw() {
    if (!this.dirty) return false;
    this.dirty = false;
    this.orbit.aim(this.camera);
    this.renderer.render(this.scene, this.camera);
    this.drawn++;
    return true;
  }

  /** Position of token i as drawn, in the coordinates of the run. */
  tokenAt(i, out) {
    const { position, ahead } = this.tokens.geometry.attributes;
    const u = this.tokens.uniforms.mixing.value;
    for (let c = 0; c < 3; c++) {
      out[c] = (1 - u) * position.array[3 * i + c] + u * ahead.array[3 * i + c];
    }
    return out;
  }

  /** Where a place of the run appears: [x, y] in CSS pixels, and how much it faces the reader. */
  project(x, y, z, out) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.place.set(x, y, z);
    this.world.localToWorld(this.place);
    out[2] = this.view === "sphere" ? this.place.dot(this.camera.position) : 1;
    this.place.project(this.camera);
    out[0] = (0.5 + 0.5 * this.place.x) * width;
    out[1] = (0.5 - 0.5 * this.place.y) * height;
    return out;
  }

  /** The place on the sphere, circle or plane under a point of the canvas. */
  placeUnder(clientX, clientY) {
    const box = this.canvas.getBoundingClientRect();
    this.pointer.set(
      (2 * (clientX - box.left)) / box.width - 1,
      1 - (2 * (clientY - box.top)) / box.height,
    );
    this.ray.setFromCamera(this.pointer, this.camera);
    const { origin, direction } = this.ray.ray;
    const at = new Vector3();
    if (this.view === "sphere") {
      const along = -origin.dot(direction);
      const square = origin.lengthSq() - along * along;
      const depth = square < 1 ? Math.sqrt(1 - square) : 0;
      at.copy(origin)
        .addScaledVector(direction, along - depth)
        .normalize();
    } else {
      at.copy(origin).addScaledVector(direction, -origin.z / direction.z);
    }
    this.world.worldToLocal(at);
    if (this.view === "circle") at.setZ(0).normalize();
    return [at.x, at.y, at.z];
  }
}
