// Reading and writing the document. A figure that stays the same costs nothing.

/** The element with this id; a typing error is found at once. @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const node = document.getElementById(id);
  if (node === null) throw new Error(`the page has no #${id}`);
  return node;
}

/** @param {Element} node @param {string} text */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {HTMLElement} node @param {string} name of a custom property @param {string} value */
export function setVariable(node, name, value) {
  if (node.style.getPropertyValue(name) !== value) node.style.setProperty(name, value);
}

/**
 * Show a figure in a `<data>` element: text for people, the exact value for programs. null shows as a dash.
 * @param {Element} node
 * @param {number | string | null | undefined} value
 * @param {(value: any) => string} format
 */
export function setFigure(node, value, format) {
  const known = value !== null && value !== undefined;
  setText(node, known ? format(value) : "–");
  if (!known) node.removeAttribute("value");
  else if (node.getAttribute("value") !== String(value)) node.setAttribute("value", String(value));
}

/**
 * A new element with a class and children.
 * @param {string} tag @param {string} [className] @param {...(Node | string)} children
 */
export function make(tag, className = "", ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

/**
 * Let `parent` have exactly `count` children, made by `create` and taken away at the end.
 * @param {Element} parent @param {number} count @param {() => Node} create
 */
export function setCount(parent, count, create) {
  while (parent.children.length > count) parent.lastElementChild?.remove();
  while (parent.children.length < count) parent.append(create());
}
