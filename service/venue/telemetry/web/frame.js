// One painting a frame, however often the figures change; none while the tab is hidden.

/** @type {Set<() => void>} */
const waiting = new Set();

function paintAll() {
  const painters = [...waiting];
  waiting.clear();
  for (const paint of painters) paint();
}

/** Call `paint` before the next frame, once. @param {() => void} paint the same function each time */
export function paintSoon(paint) {
  if (waiting.size === 0) requestAnimationFrame(paintAll);
  waiting.add(paint);
}
