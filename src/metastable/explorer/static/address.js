// The whole state in the address: copy it, and the other reader sees the same.

export function readAddress() {
  const fragment = location.hash.slice(1);
  if (!fragment) return null;
  try {
    const state = JSON.parse(decodeURIComponent(fragment));
    return state && typeof state === "object" ? state : null;
  } catch {
    return null;
  }
}

/** Replace, not push: a slider must not fill the history. */
export function writeAddress(state) {
  const fragment = encodeURIComponent(JSON.stringify(state))
    .replace(/%2C/g, ",")
    .replace(/%3A/g, ":");
  try {
    history.replaceState(null, "", `#${fragment}`);
  } catch {
    // Some browsers refuse it to pages opened from disk.
  }
}
