// Which colour a cluster has: the colour of the nearest cluster one frame earlier, so that clusters
// keep theirs while they move and merge although their numbers change from frame to frame.

import { CATEGORIES, OTHER } from "metastable/palette";

const LEAST_SHARE = 0.015; // smaller groups are not clusters yet, and stay grey
const MOST = 32;

/** {palette: category of each cluster (or −1), centres: Map category → [x, y, z, share]}. */
export function matchColours(frame, before) {
  const groups = heaviest(frame);
  const size = frame.cluster ? frame.cluster.reduce((a, b) => Math.max(a, b), 0) + 1 : 0;
  const palette = new Int16Array(size).fill(-1);
  const old = before?.colours?.centres ?? [];
  const free = new Set(Array.from({ length: MOST }, (_, k) => k));
  const pairs = [];
  for (const group of groups) {
    for (const past of old) {
      pairs.push([Math.hypot(group.x - past.x, group.y - past.y, group.z - past.z), group, past]);
    }
  }
  pairs.sort((a, b) => a[0] - b[0]);
  for (const [distance, group, past] of pairs) {
    if (distance > 0.5 || group.category !== undefined || !free.has(past.category)) continue;
    group.category = past.category;
    free.delete(past.category);
  }
  for (const group of groups) {
    if (group.category === undefined) {
      group.category = Math.min(...free);
      free.delete(group.category);
    }
    palette[group.label] = group.category;
  }
  return { palette, centres: groups };
}

function heaviest({ cluster, mass, positions, count }) {
  if (!cluster) return [];
  const groups = new Map();
  let total = 0;
  for (let i = 0; i < count; i++) {
    const weight = mass ? mass[i] : 1;
    let group = groups.get(cluster[i]);
    if (!group) groups.set(cluster[i], (group = { label: cluster[i], share: 0, x: 0, y: 0, z: 0 }));
    group.share += weight;
    group.x += weight * positions[3 * i];
    group.y += weight * positions[3 * i + 1];
    group.z += weight * positions[3 * i + 2];
    total += weight;
  }
  const few = count <= 64;
  const kept = [...groups.values()].filter((g) => few || g.share >= LEAST_SHARE * total);
  kept.sort((a, b) => b.share - a.share);
  kept.length = Math.min(kept.length, MOST);
  for (const group of kept) {
    group.x /= group.share;
    group.y /= group.share;
    group.z /= group.share;
    group.share /= total;
  }
  return kept;
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
