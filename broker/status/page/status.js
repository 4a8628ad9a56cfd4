// The status page: asks /api/v1 every two seconds and draws the answer. Only text nodes and attributes
// are written, never markup, so that a name from a client cannot become an element.

const POLL_MS = 2000;
const TIMEOUT_MS = 10000;
const OVERVIEW_EVERY = 5; // polls of another page between two looks at the overview
const GROUPS_DRAWN = 4; // rows of groups above a partition; the table has all
const SILENCE = "The broker has not answered since";
const SVG = "http://www.w3.org/2000/svg";

// ---- Elements: a description of what shall be there, and the fewest changes that lead to it.

function h(tag, attributes, ...children) {
  return { tag, attributes: attributes ?? {}, children: children.flat(Infinity).filter((c) => c !== null && c !== false && c !== "") };
}

/** The text without characters that turn the text beside them around, or that cannot be seen. */
const visible = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");

function matches(node, description) {
  if (typeof description !== "object") return node.nodeType === Node.TEXT_NODE;
  return node.nodeType === Node.ELEMENT_NODE && node.localName === description.tag && node.ownKey === description.attributes.key;
}

function created(description, parent) {
  if (typeof description !== "object") return document.createTextNode(visible(description));
  const isDrawing = description.tag === "svg" || parent.namespaceURI === SVG;
  const node = isDrawing ? document.createElementNS(SVG, description.tag) : document.createElement(description.tag);
  node.ownKey = description.attributes.key;
  return node;
}

function setAttributes(node, attributes) {
  for (const name of node.ownNames ?? []) if (!(name in attributes)) node.removeAttribute(name);
  node.ownNames = [];
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "key") continue;
    if (name.startsWith("on")) node[name] = value;
    else if (name === "value" || name === "checked") node[name] === value || (node[name] = value);
    else if (value !== null && value !== false) {
      node.ownNames.push(name);
      if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
    } else node.removeAttribute(name);
  }
}

/** Make the children of `parent` what `descriptions` say; elements that match keep focus and state. */
function patch(parent, descriptions) {
  descriptions.forEach((description, index) => {
    let node = parent.childNodes[index] ?? null;
    const key = description.attributes?.key;
    if (key !== undefined && !(node && matches(node, description)))
      node = [...parent.childNodes].slice(index).find((each) => matches(each, description)) ?? node;
    if (!node || !matches(node, description)) node = created(description, parent);
    if (node !== parent.childNodes[index]) parent.insertBefore(node, parent.childNodes[index] ?? null);
    if (typeof description !== "object") {
      if (node.data !== visible(description)) node.data = visible(description);
    } else {
      setAttributes(node, description.attributes);
      patch(node, description.children);
    }
  });
  while (parent.childNodes.length > descriptions.length) parent.lastChild.remove();
}

// ---- Words for numbers

const inGroups = new Intl.NumberFormat("en");
const count = (value) => (value === null || value === undefined ? "–" : inGroups.format(value));
const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit && value < 100 ? value.toFixed(1) : count(Math.round(value))} ${units[unit]}`;
}

function duration(ms) {
  const units = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
  const [name, length] = units.find(([, each]) => ms >= each && ms % each === 0) ?? units.find(([, each]) => ms >= each) ?? ["ms", 1];
  return `${count(Math.round((ms / length) * 10) / 10)} ${name}`;
}

const limit = (value, format) => (value < 0 ? "no limit" : format(value));
const span = (segment) => (segment.end > segment.base ? `${count(segment.base)} to ${count(segment.end - 1)}` : `from ${count(segment.base)}, empty`);
const PLACES = { remote: "tier only", both: "tier and local", local: "local only", active: "active, local" };
const topicLink = (name) => h("a", { href: `#/topics/${encodeURIComponent(name)}` }, name);

// ---- What a fetch at an offset would touch

function segmentAt(partition, offset) {
  return partition.segments.find((each) => each.base <= offset && offset < each.end && !(each.deleting && offset < partition.log_start));
}

/** The sentence for a fetch at `offset`, and the segment that it reads, if there is one. */
function fetchAt(partition, offset) {
  const p = partition;
  if (p.end === null) return { text: "This broker has no replica of the partition: ask its leader." };
  if (offset < p.log_start || offset > p.end)
    return { text: `Nothing: OFFSET_OUT_OF_RANGE, the log goes from ${count(p.log_start)} to ${count(p.end)}. The consumer's auto.offset.reset decides.` };
  if (offset >= p.high_watermark)
    return { text: offset === p.end ? "Nothing yet: this is the end of the log, the fetch waits for new records." : "Nothing yet: the fetch waits until replicas have these records." };
  const segment = segmentAt(p, offset);
  if (!segment) return { text: "The tier: a segment that is older than those listed here." };
  const share = (offset - segment.base) / Math.max(1, segment.end - segment.base);
  const near = `about byte ${count(Math.round(share * segment.bytes))} of ${count(segment.bytes)}`;
  if (segment.where === "remote" || offset < p.local_start)
    return { segment, text: `The tier: segment ${span(segment)}, ${near}. Its offset index first, then the bytes from there; each only if its cache does not have it.` };
  const open = offset >= p.last_stable ? " Transactions are open: a read_committed consumer waits." : "";
  const copy = segment.where === "both" ? " The copy in the tier is not read." : "";
  return { segment, text: `The local disk: ${segment.where === "active" ? "active segment" : "segment"} ${span(segment)}, ${near}.${copy}${open}` };
}

// ---- The picture of a partition over its offsets

const LANE = 18;
const ROW = 30;
const LETTER = 6.7; // width of a letter of 12 px, on average

function geometry(partition, width) {
  const first = partition.segments.length && !partition.more_segments ? partition.segments[0].base : partition.log_start;
  const low = Math.min(partition.log_start, first);
  const high = Math.max(partition.end, low + 1);
  const left = width < 560 ? 40 : 76;
  const right = width - 12;
  const rows = Math.min(GROUPS_DRAWN, partition.groups.length);
  const tier = 8 + rows * ROW + 8;
  const x = (offset) => left + ((Math.min(Math.max(offset, low), high) - low) / (high - low)) * (right - left);
  const at = (pixel) => Math.round(low + ((pixel - left) / (right - left)) * (high - low));
  return { width, left, right, low, high, x, at, tier, local: tier + LANE + 4, floor: tier + 2 * LANE + 4 };
}

/** Y and height of a segment: in the lane of the tier, in that of the local disk, or through both. */
function lanes(segment, g) {
  if (segment.where === "remote") return [g.tier, LANE];
  if (segment.where === "both") return [g.tier, 2 * LANE + 4];
  return [g.local, LANE];
}

function drawnSegment(segment, g) {
  const [y, height] = lanes(segment, g);
  const x = g.x(segment.base);
  const width = Math.max(segment.end > segment.base ? 1 : 3, g.x(segment.end) - x - 1);
  const name = segment.deleting ? "deleting" : segment.where;
  const shapes = [h("rect", { class: `segment ${name}${width < 6 ? " thin" : ""}`, x, y, width, height, rx: width > 8 ? 2 : 0, "data-base": segment.base, "data-where": segment.where },
    h("title", {}, `${span(segment)}, ${size(segment.bytes)}, ${stateOf(segment)}`))];
  if (segment.copying !== null) {
    shapes.push(h("rect", { class: "share", x, y: g.tier, width: width * segment.copying, height: LANE }));
    shapes.push(h("rect", { class: "copying", x: x + 1, y: g.tier + 1, width: Math.max(1, width - 2), height: LANE - 2 }));
    if (width > 44) shapes.push(h("text", { x: x + width / 2, y: g.tier + 13, "text-anchor": "middle" }, `${Math.round(segment.copying * 100)} %`));
  }
  return shapes;
}

function stateOf(segment) {
  const copying = segment.copying === null ? "" : `, copy to the tier in flight (${Math.round(segment.copying * 100)} %)`;
  return PLACES[segment.where] + copying + (segment.deleting ? ", deletion from the tier pending" : "");
}

/** The marks of a partition: name, the offset to show, and the offset where the line stands. */
function marksOf(p) {
  const marks = [["log start", p.log_start, p.log_start], ["local start", p.local_start, p.local_start]];
  if (p.last_tiered !== null && p.last_tiered >= 0) marks.push(["last tiered", p.last_tiered, p.last_tiered + 1]);
  marks.push(["last stable", p.last_stable, p.last_stable], ["high watermark", p.high_watermark, p.high_watermark], ["end", p.end, p.end]);
  return marks.filter(([, offset]) => offset !== null);
}

/** Marks with one label for those of the same offset, each label in the first row that has room. */
function placedMarks(partition, g) {
  const labels = [];
  for (const [name, offset, edge] of marksOf(partition)) {
    const same = labels.find((each) => each.offset === offset && each.edge === edge);
    if (same) same.names.push(name);
    else labels.push({ names: [name], offset, edge });
  }
  labels.sort((a, b) => a.edge - b.edge);
  const rows = [];
  for (const label of labels) {
    label.text = `${label.names.join(" = ")} ${count(label.offset)}`;
    const half = (label.text.length * LETTER) / 2;
    label.x = g.x(label.edge);
    label.middle = Math.max(half, Math.min(g.width - half, label.x));
    label.row = rows.findIndex((end) => end < label.middle - half);
    if (label.row < 0) label.row = rows.push(0) - 1;
    rows[label.row] = label.middle + half + 10;
  }
  return labels;
}

/** The lines first, so that none crosses the letters of another mark. */
function drawnMarks(labels, g) {
  const y = (label) => g.floor + 18 + label.row * 16;
  return [
    labels.map((each) => h("line", { class: "mark", x1: each.x, x2: each.x, y1: g.tier - 4, y2: y(each) - 11 })),
    labels.map((each) => h("text", { x: each.middle, y: y(each), "text-anchor": "middle" }, each.text)),
  ];
}

const byLag = (groups) => [...groups].sort((a, b) => (b.lag ?? 0) - (a.lag ?? 0) || (a.group < b.group ? -1 : 1));

function lagWords(group) {
  if (!group.lag) return "no lag";
  return `lag ${count(group.lag)}: ${count(group.lag_in_tier)} in the tier, ${count(group.lag_local)} local`;
}

function drawnGroup(group, row, partition, g) {
  const y = 8 + row * ROW + 20;
  const x = g.x(group.offset);
  const edge = Math.max(x, Math.min(g.x(partition.local_start), g.x(partition.high_watermark)));
  const shown = group.group.length > 40 ? `${group.group.slice(0, 39)}…` : group.group;
  const words = ` ${lagWords(group)}`;
  const isLeft = x + (shown.length + words.length) * LETTER > g.width;
  return h("g", { key: group.group, "data-group": group.group, "data-offset": group.offset },
    h("line", { class: "group", x1: x, x2: x, y1: y, y2: g.floor }),
    edge > x && h("line", { class: "lag-tier", x1: x, x2: edge, y1: y, y2: y }),
    h("line", { class: "lag-local", x1: edge, x2: g.x(partition.high_watermark), y1: y, y2: y }),
    h("path", { class: "tick", d: `M${x - 5} ${y - 4} H${x + 5} L${x} ${y + 6} Z` }),
    h("text", { x: isLeft ? Math.min(g.right, x + 5) : x + 8, y: y - 7, "text-anchor": isLeft ? "end" : "start" }, h("tspan", { class: "name" }, shown), words));
}

function drawnProbe(offset, answer, g) {
  if (offset === null || offset < g.low || offset > g.high) return [];
  const x = g.x(offset);
  const shapes = [];
  if (answer.segment) {
    const [y, height] = lanes(answer.segment, g);
    const from = g.x(answer.segment.base);
    shapes.push(h("rect", { class: "touched", x: from, y, width: Math.max(3, g.x(answer.segment.end) - from), height, rx: 2 }));
  }
  shapes.push(h("line", { class: "probe", x1: x, x2: x, y1: g.tier - 6, y2: g.floor + 4 }));
  shapes.push(h("path", { class: "handle", d: `M${x - 6} ${g.tier - 10} H${x + 6} L${x} ${g.tier - 1} Z` }));
  return shapes;
}

function picture(partition, g, offset, answer) {
  const labels = placedMarks(partition, g);
  const height = g.floor + 26 + 16 * Math.max(...labels.map((each) => each.row));
  const [tier, local] = g.left < 60 ? ["tier", "disk"] : ["tier", "local disk"];
  const older = partition.more_segments > 0 && partition.segments.length > 0;
  return h("svg", { width: g.width, height, viewBox: `0 0 ${g.width} ${height}`, "aria-hidden": "true", focusable: "false" },
    h("title", {}, `Partition ${partition.partition} over its offsets`),
    h("g", {}, [g.tier, g.local].map((y) => h("rect", { class: "base", x: g.left, y, width: g.right - g.left, height: LANE }))),
    h("text", { class: "lane", x: 0, y: g.tier + 13 }, tier),
    h("text", { class: "lane", x: 0, y: g.local + 13 }, local),
    h("g", {}, older && h("rect", { class: "unlisted", x: g.left, y: g.tier + 2, width: g.x(partition.segments[0].base) - g.left, height: LANE - 4 })),
    h("g", {}, partition.segments.map((each) => drawnSegment(each, g))),
    h("g", {}, drawnMarks(labels, g)),
    h("g", {}, byLag(partition.groups).slice(0, GROUPS_DRAWN).map((each, row) => drawnGroup(each, row, partition, g))),
    h("g", {}, drawnProbe(offset, answer, g)));
}

// ---- A partition: its picture, the field for an offset, and the same as tables

const probes = new Map(); // "topic/partition" → the text of the field; those of one topic only

/** The picture as a slider: arrows go from segment to segment, Home and End to the ends. */
function moved(event, partition, offset) {
  const stops = [...new Set([partition.log_start, ...partition.segments.map((each) => each.base), partition.end])]
    .filter((each) => each >= partition.log_start)
    .sort((a, b) => a - b);
  const here = offset ?? partition.log_start;
  const one = event.shiftKey ? 1 : 0;
  const later = one ? here + 1 : (stops.find((each) => each > here) ?? partition.end);
  const earlier = one ? here - 1 : (stops.findLast((each) => each < here) ?? partition.log_start);
  const targets = { ArrowRight: later, ArrowUp: later, ArrowLeft: earlier, ArrowDown: earlier, Home: partition.log_start, End: partition.end };
  if (!(event.key in targets)) return null;
  return Math.min(Math.max(targets[event.key], partition.log_start), partition.end);
}

function drawn(topic, partition) {
  const key = `${topic.name}/${partition.partition}`;
  const typed = probes.get(key) ?? "";
  const offset = /^\d{1,19}$/.test(typed.trim()) ? Number(typed) : null;
  const answer = offset === null ? { text: typed.trim() ? "An offset is a whole number, 0 or more." : "" } : fetchAt(partition, offset);
  const g = geometry(partition, Math.max(280, page.width - 34));
  const choose = (value) => { probes.set(key, String(value)); render(); };
  const slider = {
    class: "plot", role: "slider", tabindex: 0, "aria-label": `Partition ${partition.partition}: offset to fetch`,
    "aria-valuemin": partition.log_start, "aria-valuemax": partition.end, "aria-valuenow": Math.min(Math.max(offset ?? partition.log_start, partition.log_start), partition.end),
    "aria-valuetext": offset === null ? "no offset chosen" : `offset ${count(offset)}. ${answer.text}`,
    onclick: (event) => choose(Math.min(Math.max(g.at(event.clientX - event.currentTarget.getBoundingClientRect().left), partition.log_start), partition.end)),
    onkeydown: (event) => {
      const target = moved(event, partition, offset);
      if (target === null) return;
      event.preventDefault();
      choose(target);
    },
  };
  const field = `offset-${partition.partition}`;
  return [
    h("figure", {}, h("div", slider, picture(partition, g, offset, answer))),
    partition.more_segments > 0 && h("p", { class: "about" }, `${plural(partition.more_segments, "older segment")} of the tier not listed.`),
    h("div", { class: "fetch" },
      h("label", { for: field }, "A fetch at offset"),
      h("input", { type: "text", id: field, class: "offset-field", inputmode: "numeric", autocomplete: "off", value: typed, oninput: (event) => choose(event.target.value) }),
      h("output", { for: field }, answer.text || "reads what? Type an offset, or click into the picture.")),
  ];
}

function table(caption, heads, rows) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, h("table", {},
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, heads.map((head) => (head.attributes ? head : h("th", { scope: "col" }, head))))),
    h("tbody", {}, rows.length ? rows : h("tr", {}, h("td", { colspan: heads.length, class: "quiet" }, "none")))));
}

const right = (text) => h("th", { scope: "col", class: "number" }, text);
const cell = (value) => h("td", { class: "number" }, value);

function twins(partition) {
  const p = partition;
  const id = `Partition ${p.partition}`;
  const segments = p.segments.map((each) => h("tr", { key: each.base }, h("th", { scope: "row" }, span(each)), cell(size(each.bytes)), h("td", {}, stateOf(each))));
  const marks = marksOf(p).map(([name, offset]) => h("tr", {}, h("th", { scope: "row" }, name), cell(count(offset))));
  const groups = byLag(p.groups).map((each) => h("tr", { key: each.group }, h("th", { scope: "row" }, each.group),
    cell(count(each.offset)), cell(count(each.lag)), cell(count(each.lag_in_tier)), cell(count(each.lag_local))));
  return h("details", { key: "tables" }, h("summary", {}, `${id} as tables`),
    h("h3", {}, "Segments"), table(`${id}: segments`, ["Offsets", right("Size"), "Where"], segments),
    h("h3", {}, "Offsets"), table(`${id}: offsets`, ["Mark", right("Offset")], marks),
    h("h3", {}, "Groups"), table(`${id}: groups`, ["Group", right("Committed"), right("Lag"), right("In the tier"), right("Local")], groups),
    p.more_groups > 0 && h("p", { class: "quiet" }, `${plural(p.more_groups, "more group")} not listed.`));
}

/** How much of a limit in bytes is in use, as a bar whose words stand beside it. */
function used(share) {
  return h("svg", { class: "bar", width: 160, height: 10, "aria-hidden": "true", focusable: "false" },
    h("rect", { class: "base", x: 0.5, y: 0.5, width: 159, height: 9 }),
    h("rect", { class: share > 1 ? "over" : "both", x: 1, y: 1, width: Math.min(1, share) * 158, height: 8 }));
}

function retention(partition) {
  const r = partition.retention;
  if (!r) return [];
  const line = (name, bytes, ms, inUse) => [
    h("dt", {}, name),
    h("dd", {}, `${size(inUse)} of ${limit(bytes, size)}; time: ${limit(ms, duration)}`, bytes > 0 && used(inUse / bytes)),
  ];
  return h("dl", { class: "facts" }, line("Kept in all", r.bytes, r.ms, r.bytes_used), line("Kept locally", r.local_bytes, r.local_ms, r.local_bytes_used));
}

function partitionCard(topic, p) {
  const replicas = `leader ${p.leader < 0 ? "none" : p.leader}; replicas ${p.replicas.join(", ")}; in sync ${p.isr.join(", ") || "none"}`;
  const bytes = p.end === null ? "" : `; ${size(p.bytes_local)} local, ${size(p.bytes_remote)} in the tier`;
  return h("section", { class: "partition", key: `partition-${p.partition}`, "aria-label": `Partition ${p.partition}` },
    h("h2", {}, `Partition ${p.partition}`),
    h("p", { class: "about" }, replicas + bytes),
    p.end === null ? h("p", {}, "This broker has no replica of this partition: its leader's page draws it.") : [drawn(topic, p), retention(p), twins(p)]);
}

// ---- The pages

const pageLink = (base, from, text) => h("a", { href: `#${base}?from=${from}` }, text);

function pager(base, shown, more) {
  const from = page.route.from;
  if (!from && !more) return [];
  return h("p", { class: "pager" }, from > 0 && pageLink(base, 0, "First"), more > 0 && pageLink(base, from + shown, `Next of ${count(more)} more`));
}

function figure(name, value, href, isBad) {
  const inside = [h("span", { class: isBad ? "figure bad" : "figure" }, value), h("span", { class: "quiet" }, name)];
  return h("li", {}, href ? h("a", { href }, inside) : inside);
}

function health(tier) {
  const name = { ok: "In order.", off: "Off.", trouble: "Trouble." }[tier.state] ?? tier.state;
  return h("p", { class: "sentence" }, h("span", { class: tier.state === "trouble" ? "bad" : tier.state === "ok" ? "good" : "quiet" }, name), ` ${tier.sentence}`);
}

function overviewPage(o) {
  const brokers = o.brokers.map((each) => h("tr", { key: each.id }, h("th", { scope: "row" }, each.id === o.controller ? `${each.id} (controller)` : each.id),
    h("td", {}, `${each.host}:${each.port}`), h("td", {}, each.state)));
  return [
    h("h1", { tabindex: -1 }, "Overview"),
    h("ul", { class: "cards" },
      figure("topics", count(o.topics), "#/topics"),
      figure("partitions", count(o.partitions), "#/topics"),
      figure("under-replicated", count(o.under_replicated), "#/topics", o.under_replicated > 0),
      figure("without a leader", count(o.offline), "#/topics", o.offline > 0),
      figure("groups", count(o.groups), "#/groups"),
      figure("on the local disk", size(o.bytes_local), "#/topics"),
      figure("in the tier", size(o.bytes_remote), "#/tier"),
      figure("received since the start", size(o.bytes_in)),
      figure("sent since the start", size(o.bytes_out))),
    h("h2", {}, "Remote tier"),
    h("div", { class: "card" }, health(o.tier)),
    h("h2", {}, "Brokers"),
    table("Brokers", ["Broker", "Address", "State"], brokers),
    o.more_brokers > 0 && h("p", { class: "quiet" }, `${plural(o.more_brokers, "more broker")} under Brokers.`),
  ];
}

const sorting = { column: "name", isDown: false };
const filter = { text: "", hasInternal: false };
const lagOf = (topic) => topic.groups.reduce((sum, each) => sum + (each.lag ?? 0), 0);
const COLUMNS = [
  ["name", "Topic", (t) => t.name], ["lag", "Groups and lag", lagOf], ["partitions", "Partitions", (t) => t.partitions],
  ["records", "Records", (t) => t.records ?? -1], ["local", "Local", (t) => t.bytes_local ?? -1], ["remote", "In the tier", (t) => t.bytes_remote ?? -1],
];

function sortableHead([name, title], index) {
  const isBy = sorting.column === name;
  const sort = () => {
    sorting.isDown = isBy ? !sorting.isDown : name !== "name";
    sorting.column = name;
    render();
  };
  return h("th", { scope: "col", class: index > 1 ? "number" : null, "aria-sort": isBy ? (sorting.isDown ? "descending" : "ascending") : null },
    h("button", { type: "button", onclick: sort }, title, isBy ? (sorting.isDown ? " ▾" : " ▴") : ""));
}

function topicRow(topic) {
  const groups = byLag(topic.groups).map((each) => h("li", { key: each.group }, `${each.group} ${count(each.lag)}`));
  if (topic.more_groups > 0) groups.push(h("li", { class: "quiet" }, `${count(topic.more_groups)} more`));
  const troubles = [topic.offline > 0 && `${count(topic.offline)} without a leader`, topic.under_replicated > 0 && `${count(topic.under_replicated)} under-replicated`].filter(Boolean);
  return h("tr", { key: topic.name },
    h("th", { scope: "row" }, topicLink(topic.name), troubles.length > 0 && h("span", { class: "bad" }, ` ${troubles.join(", ")}`)),
    h("td", {}, groups.length ? h("ul", { class: "chips" }, groups) : h("span", { class: "quiet" }, "no group")),
    cell(`${count(topic.partitions)} × ${count(topic.replication)}`), cell(count(topic.records)), cell(size(topic.bytes_local)), cell(topic.tiered ? size(topic.bytes_remote) : "not tiered"));
}

function topicsPage(answer) {
  const [, , value] = COLUMNS.find(([name]) => name === sorting.column);
  const order = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (sorting.isDown ? -1 : 1);
  const text = filter.text.toLowerCase();
  const fits = (each) => (filter.hasInternal || !each.internal) && (!text || each.name.toLowerCase().includes(text) || each.groups.some((g) => g.group.toLowerCase().includes(text)));
  const topics = answer.topics.filter(fits).sort(order);
  return [
    h("h1", { tabindex: -1 }, "Topics"),
    h("div", { class: "filter" },
      h("label", {}, "Filter by topic or group", h("input", { type: "search", value: filter.text, oninput: (event) => { filter.text = event.target.value; render(); } })),
      h("label", {}, h("input", { type: "checkbox", checked: filter.hasInternal, onchange: (event) => { filter.hasInternal = event.target.checked; render(); } }), " internal topics")),
    table(`${plural(topics.length, "topic")}, with the groups that read them and their lag`, COLUMNS.map(sortableHead), topics.map(topicRow)),
    pager("/topics", answer.topics.length, answer.more),
  ];
}

function sample(name, text) {
  const shape = name === "copying" ? [h("rect", { class: "share", x: 0, y: 1, width: 11, height: 14 }), h("rect", { class: "copying", x: 1, y: 1, width: 20, height: 14 })]
    : name.startsWith("lag") ? h("line", { class: name, x1: 0, x2: 22, y1: 8, y2: 8 })
    : name === "tick" ? h("path", { class: "tick", d: "M6 3 H16 L11 13 Z" })
    : h("rect", { class: `segment ${name}`, x: 1, y: 1, width: 20, height: 14 });
  return h("li", {}, h("svg", { width: 22, height: 16, "aria-hidden": "true", focusable: "false" }, shape), text);
}

function topicPage(topic) {
  const configs = Object.entries(topic.configs).sort().flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
  const about = `${plural(topic.partitions.length + topic.more, "partition")}; ${topic.tiered ? "tiered: closed segments are copied to the tier" : "not tiered: all of it is local"}${topic.internal ? "; internal" : ""}`;
  return [
    h("p", { class: "path" }, h("a", { href: "#/topics" }, "Topics"), " /"),
    h("h1", { tabindex: -1 }, topic.name),
    h("p", { class: "path" }, about),
    h("ul", { class: "legend", "aria-label": "Legend" },
      sample("remote", "tier only"), sample("both", "tier and local"), sample("local", "local only"), sample("active", "active"),
      sample("copying", "copy in flight"), sample("deleting", "deletion pending"), sample("tick", "a group's committed offset"),
      sample("lag-tier", "its lag in the tier"), sample("lag-local", "its local lag")),
    topic.partitions.map((each) => partitionCard(topic, each)),
    pager(`/topics/${encodeURIComponent(topic.name)}`, topic.partitions.length, topic.more),
    h("h2", { key: "settings" }, "Settings of its own"),
    configs.length ? h("dl", { class: "facts card" }, configs) : h("p", { class: "quiet" }, "None: the broker's defaults hold."),
  ];
}

function lagBar(group) {
  const width = 160;
  const tier = group.lag ? (group.lag_in_tier / group.lag) * width : 0;
  if (!group.lag) return [];
  return h("svg", { class: "bar", width, height: 10, "aria-hidden": "true", focusable: "false" },
    h("rect", { class: "remote", x: 0, y: 0, width: tier, height: 10 }), h("rect", { class: "local", x: tier, y: 0, width: width - tier, height: 10 }));
}

function groupRow(group) {
  const members = group.members.map((each) => h("li", {}, `${each.client} ${each.host}`, each.instance ? ` (${each.instance})` : "", h("span", { class: "quiet" }, ` ${each.member}`)));
  if (group.more_members > 0) members.push(h("li", { class: "quiet" }, `${count(group.more_members)} more`));
  const topics = group.topics.map((each) => h("li", { key: each.topic }, topicLink(each.topic), ` ${count(each.lag)}`));
  if (group.more_topics > 0) topics.push(h("li", { class: "quiet" }, `${count(group.more_topics)} more`));
  return h("tr", { key: group.group },
    h("th", { scope: "row" }, group.group), h("td", {}, group.state, h("span", { class: "quiet" }, ` ${group.type}`)),
    cell([count(group.lag), lagBar(group)]), cell(count(group.lag_in_tier)), cell(count(group.lag_local)),
    h("td", {}, h("ul", { class: "chips" }, topics)),
    h("td", {}, members.length ? h("details", {}, h("summary", {}, plural(group.members.length + group.more_members, "member")), h("ul", {}, members)) : h("span", { class: "quiet" }, "none")));
}

function groupsPage(answer) {
  const heads = ["Group", "State", right("Lag"), right("In the tier"), right("Local"), "Topics and lag", "Members"];
  return [
    h("h1", { tabindex: -1 }, "Groups"),
    table("Groups that this broker coordinates", heads, byLag(answer.groups).map(groupRow)),
    answer.loading > 0 && h("p", {}, `${plural(answer.loading, "partition")} of __consumer_offsets still being read: their groups come later.`),
    pager("/groups", answer.groups.length, answer.more),
  ];
}

function cacheWords(cache) {
  const all = cache.hits + cache.joined + cache.misses;
  return all ? `${Math.round(((cache.hits + cache.joined) / all) * 100)} % of ${plural(all, "read")} without a request to the tier` : "not used yet";
}

function inFlightRow(each) {
  const share = each.copying ?? 0;
  return h("tr", { key: `${each.topic}/${each.partition}/${each.base}` },
    h("th", { scope: "row" }, topicLink(each.topic), ` ${each.partition}`), h("td", {}, span(each)), cell(size(each.bytes)),
    h("td", {}, each.deleting ? "deletion" : `copy, ${Math.round(share * 100)} %`, !each.deleting && used(share)));
}

function tierPage(t) {
  const traffic = (name, each) => [h("dt", {}, name), h("dd", {}, `${plural(each.requests, "request")}${each.bytes === undefined ? "" : `, ${size(each.bytes)}`}; `, h("span", { class: each.errors ? "bad" : null }, plural(each.errors, "error")))];
  return [
    h("h1", { tabindex: -1 }, "Remote tier"),
    h("div", { class: "card" }, health(t), t.location && h("p", { class: "quiet" }, h("code", {}, t.location))),
    h("ul", { class: "cards" }, figure("in the tier", size(t.bytes)), figure("segments", count(t.segments)),
      figure(`still to copy, ${plural(t.copy_lag_segments, "segment")}`, size(t.copy_lag_bytes)),
      figure(`still to delete, ${plural(t.delete_lag_segments, "segment")}`, size(t.delete_lag_bytes))),
    h("h2", {}, "Traffic and caches since the start"),
    h("dl", { class: "facts card" }, traffic("Copies", t.copies), traffic("Fetches", t.fetches), traffic("Deletions", t.deletions),
      h("dt", {}, "Chunk cache"), h("dd", {}, cacheWords(t.chunk_cache)), h("dt", {}, "Index cache"), h("dd", {}, cacheWords(t.index_cache))),
    h("h2", {}, "Under way"),
    table("Copies and deletions under way", ["Partition", "Offsets", right("Size"), "What"], t.in_flight.map(inFlightRow)),
    t.more > 0 && h("p", { class: "quiet" }, `${count(t.more)} more not listed.`),
  ];
}

function brokersPage(answer) {
  const rows = answer.brokers.map((each) => h("tr", { key: each.id },
    h("th", { scope: "row" }, each.id === answer.controller ? `${each.id} (controller)` : each.id), h("td", {}, `${each.host}:${each.port}`), h("td", {}, each.rack ?? "–"),
    h("td", {}, h("span", { class: each.state === "active" ? "good" : "bad" }, each.state)), cell(count(each.leaders)), cell(count(each.replicas)),
    cell(h("span", { class: each.in_sync < each.replicas ? "bad" : null }, count(each.in_sync)))));
  return [
    h("h1", { tabindex: -1 }, "Brokers"),
    table("Brokers of the cluster", ["Broker", "Address", "Rack", "State", right("Leads"), right("Replicas"), right("In sync")], rows),
    pager("/brokers", answer.brokers.length, answer.more),
  ];
}

// ---- Where we are, what we ask, and what we show

const PAGES = { "": ["overview", overviewPage, "Overview"], topics: ["topics", topicsPage, "Topics"], groups: ["groups", groupsPage, "Groups"], tier: ["tier", tierPage, "Tier"], brokers: ["brokers", brokersPage, "Brokers"] };
const page = { route: null, answer: null, overview: null, trouble: "", width: 800, etags: new Map(), polls: 0, timer: 0, turn: 0 };

/** What a part of an address stands for; the part itself where it is not encoded as it should be. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function routeOf(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split("?");
  const [given, ...rest] = path.split("/");
  const from = Number(new URLSearchParams(query).get("from") ?? 0);
  const suffix = from > 0 ? `?from=${from}` : "";
  const topic = decoded(rest.join("/"));
  // A browser would take the dots for another address.
  if (given === "topics" && topic && !/^\.{1,2}$/.test(topic))
    return { tab: "topics", url: `api/v1/topics/${encodeURIComponent(topic)}${suffix}`, view: topicPage, title: topic, from };
  const name = Object.hasOwn(PAGES, given) ? given : "";
  const [resource, view, title] = PAGES[name];
  return { tab: name, url: `api/v1/${resource}${suffix}`, view, title, from };
}

/** The JSON at `url`; null if it is as before. Raises an Error whose message is for people. */
async function ask(url) {
  const headers = page.etags.has(url) ? { "If-None-Match": page.etags.get(url) } : {};
  let response;
  try {
    response = await fetch(url, { headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch {
    throw new Error(`${SILENCE} ${new Date().toLocaleTimeString("en-GB")}. This page asks again every ${POLL_MS / 1000} s.`);
  }
  if (response.status === 304) return null;
  const body = await response.json().catch(() => ({ error: `The broker answered ${response.status}.` }));
  if (!response.ok) throw new Error(body.error ?? `The broker answered ${response.status}.`);
  if (response.headers.get("ETag")) page.etags.set(url, response.headers.get("ETag"));
  return body;
}

async function poll() {
  clearTimeout(page.timer);
  const turn = ++page.turn;
  const { route } = page;
  try {
    const answer = await ask(route.url);
    if (turn !== page.turn) return;
    if (answer) page.answer = answer;
    if (route.tab === "" && answer) page.overview = answer;
    else if (route.tab !== "" && page.polls++ % OVERVIEW_EVERY === 0) page.overview = (await ask("api/v1/overview")) ?? page.overview;
    if (turn !== page.turn) return;
    if (answer || page.trouble || page.polls % OVERVIEW_EVERY === 1) [page.trouble, page.isStale] = ["", true];
  } catch (error) {
    if (turn !== page.turn) return;
    if (![page.trouble, error.message].every((each) => each.startsWith(SILENCE))) page.trouble = error.message; // the first moment of silence stays
    page.isStale = true;
  }
  if (page.isStale) render();
  page.isStale = false;
  if (!document.hidden) page.timer = setTimeout(poll, POLL_MS);
}

function render() {
  const main = document.getElementById("main");
  page.width = main.clientWidth - parseFloat(getComputedStyle(main).paddingLeft) * 2;
  const o = page.overview;
  patch(document.getElementById("cluster"), o ? [`version ${o.version}, cluster ${o.cluster_id}`, o.tier.state === "trouble" ? ", the tier is in trouble" : ""].filter(Boolean) : []);
  patch(document.getElementById("trouble"), page.trouble ? [page.trouble] : []);
  patch(main, h("main", {}, page.answer ? page.route.view(page.answer) : [h("h1", { tabindex: -1 }, page.route.title), h("p", { class: "quiet unanswered" }, page.trouble ? "" : "Asking the broker …")]).children);
}

function go() {
  const isFirst = page.route === null;
  const earlier = page.route?.title;
  page.route = routeOf(location.hash);
  page.answer = null;
  page.trouble = "";
  page.etags.clear();
  if (earlier !== page.route.title) probes.clear();
  document.title = page.route.title === "Overview" ? "tierlog" : `${page.route.title} – tierlog`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${page.route.tab}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const json = document.getElementById("json");
  json.setAttribute("href", page.route.url);
  json.textContent = `/${page.route.url}`;
  render();
  poll();
  if (!isFirst) document.getElementById("main").focus();
}

// The address of a page is after the #, hence the link to the content does not go there.
document.querySelector(".skip").onclick = (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
};
addEventListener("hashchange", go);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(page.timer) : poll()));
new ResizeObserver(() => page.route && render()).observe(document.body);
go();
