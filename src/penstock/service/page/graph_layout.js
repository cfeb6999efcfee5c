// SPDX-License-Identifier: Apache-2.0
// Where the operators of a pipeline stand in its drawing: layers from left to right, few crossings.
//
// Layers are longest paths from the sources; the order within them is found by the barycentre heuristic of Sugiyama,
// Tagawa and Toda (1981), swept forth and back. Edges over several layers pass through places of their own.

const SWEEPS = 8;

function layersOf(names, edges) {
  const above = new Map(names.map((name) => [name, []]));
  for (const { from, to } of edges) if (above.has(from) && above.has(to)) above.get(to).push(from);
  const depth = new Map();
  const visit = (name, way) => {
    if (depth.has(name)) return depth.get(name);
    if (way.has(name)) return 0; // a cycle cannot be: the service refuses it; the page must not hang on one
    way.add(name);
    const deepest = Math.max(-1, ...above.get(name).map((source) => visit(source, way)));
    way.delete(name);
    depth.set(name, deepest + 1);
    return deepest + 1;
  };
  for (const name of names) visit(name, new Set());
  return depth;
}

function ordered(layer, neighbours, place) {
  const wanted = new Map(
    layer.map((name) => {
      const places = (neighbours.get(name) ?? []).map((other) => place.get(other));
      return [name, places.length ? places.reduce((sum, x) => sum + x, 0) / places.length : place.get(name)];
    }),
  );
  layer.sort((a, b) => wanted.get(a) - wanted.get(b) || place.get(a) - place.get(b));
  layer.forEach((name, index) => place.set(name, index - (layer.length - 1) / 2));
}

/**
 * Places of all operators and the ways of all edges.
 *
 * names: operators; edges: [{from, to}]; box: {width, height, gapX, gapY}.
 * Gives {width, height, nodes: Map(name -> {x, y}), ways: Map("from to" -> [{x, y}, ...])}; a place is a box's corner,
 * a way goes from the middle of a box's right side to the middle of the next one's left side.
 */
export function layout(names, edges, box) {
  const depth = layersOf(names, edges);
  const layers = [];
  for (const name of names) (layers[depth.get(name)] ??= []).push(name);
  const before = new Map();
  const after = new Map();
  const join = (a, b) => {
    if (!after.has(a)) after.set(a, []);
    if (!before.has(b)) before.set(b, []);
    after.get(a).push(b);
    before.get(b).push(a);
  };
  const through = new Map(); // the places that a long edge passes between two layers
  for (const { from, to } of edges) {
    if (!depth.has(from) || !depth.has(to)) continue;
    const passed = [];
    let last = from;
    for (let layer = depth.get(from) + 1; layer < depth.get(to); layer += 1) {
      const bend = `\u0000${from}\u0000${to}\u0000${layer}`;
      layers[layer].push(bend);
      join(last, bend);
      passed.push(bend);
      last = bend;
    }
    join(last, to);
    through.set(`${from} ${to}`, passed);
  }
  const place = new Map();
  for (const layer of layers) layer.forEach((name, index) => place.set(name, index - (layer.length - 1) / 2));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    if (sweep % 2 === 0) for (const layer of layers) ordered(layer, before, place);
    else for (const layer of [...layers].reverse()) ordered(layer, after, place);
  }
  const most = Math.max(1, ...layers.map((layer) => layer.length));
  const height = most * (box.height + box.gapY) - box.gapY;
  const at = (name, layer) => ({
    x: layer * (box.width + box.gapX),
    y: height / 2 + place.get(name) * (box.height + box.gapY) - box.height / 2,
  });
  const nodes = new Map(names.map((name) => [name, at(name, depth.get(name))]));
  const ways = new Map();
  for (const { from, to } of edges) {
    if (!nodes.has(from) || !nodes.has(to)) continue;
    const start = nodes.get(from);
    const end = nodes.get(to);
    const bends = through.get(`${from} ${to}`).flatMap((bend, index) => {
      const spot = at(bend, depth.get(from) + 1 + index);
      const y = spot.y + box.height / 2;
      return [
        { x: spot.x, y },
        { x: spot.x + box.width, y },
      ];
    });
    ways.set(`${from} ${to}`, [
      { x: start.x + box.width, y: start.y + box.height / 2 },
      ...bends,
      { x: end.x, y: end.y + box.height / 2 },
    ]);
  }
  return { width: layers.length * (box.width + box.gapX) - box.gapX, height, nodes, ways };
}
