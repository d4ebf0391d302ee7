// Which colour a cluster has: the colour of the nearest cluster one frame earlier, so that clusters
// keep theirs while they move and merge although their numbers change from frame to frame.

import { CATEGORIES, OTHER } from "metastable/palette";

const LEAST_SHARE = 0.015; // smaller groups are not clusters yet, and stay grey
const DIFFUSE = 0.5; // tokens all around the sphere hang together, but are not a cluster
const MOST = 32;
const REACH = 0.5;

/**
 * Of each cluster its share of the mass and its colour (a category, or −1); the large ones; and
 * whether most tokens are still one crowd all around.
 */
export function matchColours(frame, before) {
  const groups = gather(frame);
  const palette = new Int16Array(groups.length).fill(-1);
  const shares = new Float32Array(groups.length);
  for (const group of groups) shares[group.label] = group.share;
  const few = frame.count <= 64;
  const large = groups.filter(
    (group) => group.spread < DIFFUSE && (few || group.share >= LEAST_SHARE),
  );
  large.sort((a, b) => b.share - a.share);
  large.length = Math.min(large.length, MOST);
  inherit(large, before?.colours?.large ?? []);
  for (const group of large) palette[group.label] = group.category;
  const crowd = groups.some((group) => group.share > 0.5 && group.spread >= DIFFUSE);
  return { palette, shares, large, crowd };
}

/** Nearest pairs first; whoever is left takes the first free colour. */
function inherit(groups, past) {
  const free = new Set(Array.from({ length: MOST }, (_, k) => k));
  const pairs = [];
  for (const group of groups) {
    for (const old of past) {
      pairs.push([Math.hypot(group.x - old.x, group.y - old.y, group.z - old.z), group, old]);
    }
  }
  pairs.sort((a, b) => a[0] - b[0]);
  for (const [distance, group, old] of pairs) {
    if (distance > REACH || group.category >= 0 || !free.has(old.category)) continue;
    group.category = old.category;
    free.delete(old.category);
  }
  for (const group of groups) {
    if (group.category >= 0) continue;
    group.category = free.values().next().value;
    free.delete(group.category);
  }
}

/** Share and centre of each cluster, by label. */
function gather({ cluster, mass, positions, count }) {
  const groups = [];
  if (!cluster) return groups;
  let total = 0;
  for (let i = 0; i < count; i++) {
    while (groups.length <= cluster[i]) {
      groups.push({
        label: groups.length,
        category: -1,
        share: 0,
        x: 0,
        y: 0,
        z: 0,
        square: 0,
        spread: 1,
      });
    }
    const group = groups[cluster[i]];
    const weight = mass ? mass[i] : 1;
    const x = positions[3 * i];
    const y = positions[3 * i + 1];
    const z = positions[3 * i + 2];
    group.share += weight;
    group.x += weight * x;
    group.y += weight * y;
    group.z += weight * z;
    group.square += weight * (x * x + y * y + z * z);
    total += weight;
  }
  for (const group of groups) {
    const { share } = group;
    if (!share) continue;
    group.x /= share;
    group.y /= share;
    group.z /= share;
    // Variance over mean square: 0 for one point, 1 for tokens all around.
    const centre = group.x * group.x + group.y * group.y + group.z * group.z;
    group.spread = group.square > 0 ? 1 - (centre * share) / group.square : 0;
    group.share /= total;
  }
  return groups;
}

/** The colour of a category: eight of their own, then the same lightened, then darkened. */
export function categoryColour(category, out) {
  const base = category < 0 ? OTHER : CATEGORIES[category % CATEGORIES.length];
  const turn = category < 0 ? 0 : Math.floor(category / CATEGORIES.length) % 3;
  for (let c = 0; c < 3; c++) {
    out[c] = turn === 1 ? base[c] + 0.45 * (255 - base[c]) : turn === 2 ? 0.6 * base[c] : base[c];
  }
  return out;
}
