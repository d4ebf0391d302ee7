// Colours that hold on light and dark paper and for every kind of colour blindness.
// Eight categories after Okabe and Ito; one perceptual scale for quantities (viridis, cut at both
// ends so that neither paper swallows it).

export const CATEGORIES = [
  [0, 114, 178],
  [230, 159, 0],
  [0, 158, 115],
  [204, 121, 167],
  [213, 94, 0],
  [138, 43, 232],
  [86, 180, 233],
  [150, 84, 48],
];
export const OTHER = [128, 132, 140];

const STOPS = [
  [65, 68, 135],
  [57, 86, 140],
  [44, 113, 142],
  [33, 144, 141],
  [39, 173, 129],
  [92, 200, 99],
  [170, 220, 50],
  [224, 227, 24],
];

// 256 steps of the scale, three bytes each: looked up, never computed, while drawing.
export const SCALE = new Uint8Array(768);
for (let i = 0; i < 256; i++) {
  const at = (i / 255) * (STOPS.length - 1);
  const k = Math.min(STOPS.length - 2, Math.floor(at));
  for (let c = 0; c < 3; c++) {
    SCALE[3 * i + c] = Math.round(STOPS[k][c] + (at - k) * (STOPS[k + 1][c] - STOPS[k][c]));
  }
}

const css = ([r, g, b], alpha = 1) => `rgba(${r}, ${g}, ${b}, ${alpha})`;

export const scaleCss = (share) => {
  const i = 3 * Math.round(255 * Math.min(1, Math.max(0, share)));
  return css([SCALE[i], SCALE[i + 1], SCALE[i + 2]]);
};

const INKS = ["paper", "card", "ink", "soft", "line", "accent", "theory"];

/** The colours of the theme now in force, read once from the style sheet. */
export function themeColours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(INKS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
