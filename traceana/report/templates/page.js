// Tables sort and filter, figures enlarge and can be saved, the contents follow the reader.
// All that is to be read is there without this script.
"use strict";
(() => {
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  document.documentElement.classList.add("js");

  // contents: always open beside the text where there is room, else folded under its bar
  const contents = document.querySelector("nav details");
  const wide = matchMedia("(min-width: 64rem)");
  const fold = () => { contents.open = wide.matches; };
  fold();
  wide.addEventListener("change", fold);
  contents.addEventListener("click", (event) => {
    if (!wide.matches && event.target.closest("a")) contents.open = false;
  });
  const links = [...contents.querySelectorAll("#contents a")];
  const parts = links.map((link) => document.getElementById(link.hash.slice(1)));
  let waiting = false;
  const follow = () => {
    waiting = false;
    const line = innerHeight / 4;
    let now = parts.findLastIndex((part) => part.getBoundingClientRect().top <= line);
    if (innerHeight + scrollY >= document.documentElement.scrollHeight - 2) now = parts.length - 1;
    links.forEach((link, place) => {
      if (place === now) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
    if (wide.matches && now >= 0) {
      const nav = contents.parentElement, box = nav.getBoundingClientRect();
      const top = links[now].getBoundingClientRect().top - box.top;
      if (top < 0 || top > nav.clientHeight - 60) nav.scrollTop += top - nav.clientHeight / 2;
    }
  };
  addEventListener("scroll", () => {
    if (!waiting) requestAnimationFrame(follow);
    waiting = true;
  }, { passive: true });
  follow();

  // tables
  const units = { kB: 1e3, MB: 1e6, GB: 1e9, ms: 1e-3, min: 60, h: 3600, d: 86400 };
  const read = (text) => {
    if (/^\d{4}-\d\d-\d\d /.test(text)) return Date.parse(text.replace(" ", "T").replace(" UTC", "Z")) / 1000;
    const found = text.replaceAll(",", "").match(/^(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s?(kB|MB|GB|ms|min|h|d)?(?!\w)/);
    return found ? Number(found[1]) * (units[found[2]] ?? 1) : null;
  };
  const words = new Intl.Collator("en", { numeric: true });
  const compare = (numeric) => (one, other) => {
    if (!numeric) return words.compare(one, other);
    return read(one) - read(other);
  };
  const unknown = (text, numeric) => (numeric ? read(text) === null : text === "" || text === "–");

  const sort = (table, column, direction) => {
    const body = table.tBodies[0];
    const numeric = table.tHead.rows[0].cells[column].classList.contains("number");
    const cell = (row) => row.cells[column].textContent.trim();
    const rows = [...body.rows].sort((one, other) => one.dataset.place - other.dataset.place);
    if (direction !== "none") {
      const known = rows.filter((row) => !unknown(cell(row), numeric));
      const rest = rows.filter((row) => unknown(cell(row), numeric));
      const order = compare(numeric), sign = direction === "ascending" ? 1 : -1;
      known.sort((one, other) => sign * order(cell(one), cell(other)));
      rows.splice(0, rows.length, ...known, ...rest);
    }
    body.append(...rows);
    for (const [place, heading] of [...table.tHead.rows[0].cells].entries()) {
      heading.ariaSort = place === column ? direction : "none";
    }
  };
  const next = { none: "ascending", ascending: "descending", descending: "none" };

  const enable_table = (table) => {
    const rows = [...table.tBodies[0].rows];
    rows.forEach((row, place) => { row.dataset.place = place; });
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    for (const row of [...rows, ...(table.tFoot?.rows ?? [])]) {
      [...row.cells].slice(1).forEach((cell, place) => {
        cell.dataset.heading = names[place + 1];
        cell.toggleAttribute("data-none", cell.textContent === "–");  // on a phone it is left out
      });
    }
    if (rows.length < 2) {
      const box = table.parentElement;
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;  // no button in it takes the focus
      return;
    }
    for (const [column, heading] of [...table.tHead.rows[0].cells].entries()) {
      const button = make("button", { type: "button", className: "sort" }, ...heading.childNodes);
      heading.append(button);
      heading.ariaSort = "none";
      button.tabIndex = column ? -1 : 0;  // one tab stop per table; arrow keys move on
      button.addEventListener("click", () => sort(table, column, next[heading.ariaSort]));
      button.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        heading.parentElement.cells[column + step]?.querySelector("button")?.focus();
      });
    }
    if (rows.length < 12) return;
    const shown = make("output", {});
    const box = make("input", { type: "search", placeholder: "words or numbers" });
    box.addEventListener("input", () => {
      const wanted = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
        row.hidden = !wanted.every((word) => text.includes(word));
      }
      const left = rows.filter((row) => !row.hidden).length;
      shown.textContent = wanted.length ? `${left} of ${rows.length} rows` : "";
    });
    const tools = table.parentElement.previousElementSibling;
    tools.prepend(make("label", {}, "Filter rows ", box), shown);
  };

  // figures: a click enlarges, with the caption, how to read it, and its files
  const close = make("button", { type: "button", autofocus: true }, "Close");
  const zooms = [["Larger", 1.4], ["Smaller", 1 / 1.4]].map(([name, factor]) => {
    const button = make("button", { type: "button" }, name);
    button.addEventListener("click", () => zoom(scale * factor));
    return button;
  });
  const files = make("p", { className: "tools" });
  const card = make("div", { className: "card", tabIndex: 0 });  // scrolled by keyboard too
  const caption = make("p", { id: "enlarged" });
  const dialog = make("dialog", {}, make("div", { className: "bar" }, close, ...zooms, files), card, caption);
  dialog.setAttribute("aria-labelledby", "enlarged");
  document.body.append(dialog);
  let home = null, scale = 1;
  const zoom = (wanted) => {
    scale = Math.min(Math.max(wanted, 1), 8);
    card.style.setProperty("--zoom", `${100 * scale}%`);
  };
  const enlarge = (figure) => {
    home = figure.querySelector(".card");
    card.append(home.querySelector("svg"));  // moved, not copied: ids stay the only ones
    const reading = document.querySelector(`.reading[data-of="${figure.id}"]`);
    caption.textContent = `${figure.querySelector("figcaption").textContent} ${reading?.lastChild.textContent ?? ""}`;
    files.replaceChildren(...[...figure.querySelectorAll(".tools a")].map((one) => one.cloneNode(true)));
    dialog.showModal();
    zoom(1);
  };
  dialog.addEventListener("close", () => home.prepend(card.firstElementChild));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  close.addEventListener("click", () => dialog.close());

  const enable_figure = (figure) => {
    const name = figure.querySelector("figcaption .number").textContent.replace(/\.$/, "");
    const larger = make("button", { type: "button", className: "larger", ariaLabel: `Enlarge ${name}` }, "Enlarge");
    larger.addEventListener("click", () => enlarge(figure));
    figure.querySelector(".card").addEventListener("click", () => enlarge(figure));
    figure.append(larger);
    enable_values(figure.querySelector(".card"), larger);
  };

  // values of a figure: under the pointer, and by arrow keys on the button that enlarges
  const tip = make("output", { className: "tip", hidden: true });
  const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  ring.setAttribute("class", "ring");
  ring.setAttribute("r", "4");
  const values_of = (svg) => [...svg.querySelectorAll("[data-values]")].flatMap((group) => {
    const labels = group.dataset.axes.split(";");
    return group.dataset.values.split("|").map((one) => {
      const [x, y, ...words] = one.split(" "), [name, ...texts] = words.join(" ").split(";");
      const lines = texts.map((text, place) => (labels[place] ? `${labels[place]}: ${text}` : text));
      return { x: Number(x), y: Number(y), text: [name, ...lines].filter(Boolean).join("\n") };
    });
  });
  const hide = () => { tip.hidden = true; ring.remove(); };
  const show = (svg, value) => {
    (svg.closest("dialog") ?? document.body).append(tip);
    svg.append(ring);
    ring.setAttribute("cx", value.x);
    ring.setAttribute("cy", value.y);
    const at = new DOMPoint(value.x, value.y).matrixTransform(svg.getScreenCTM());
    tip.textContent = value.text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(at.x + 12, innerWidth - box.width - 4))}px`;
    tip.style.top = `${at.y - box.height - 10 < 4 ? at.y + 12 : at.y - box.height - 10}px`;
  };
  const enable_values = (card, button) => {
    card.addEventListener("pointermove", (event) => {
      const svg = card.querySelector("svg"), matrix = svg?.getScreenCTM();
      if (!matrix) return;
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
      const far = (one) => Math.hypot(one.x - at.x, one.y - at.y);
      const near = values_of(svg).reduce((one, other) => (one && far(one) <= far(other) ? one : other), null);
      if (near && far(near) < 15) show(svg, near);
      else hide();
    });
    card.addEventListener("pointerleave", hide);
    let place = -1;
    button?.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const svg = card.querySelector("svg"), values = values_of(svg).sort((one, other) => one.x - other.x);
      if (!step || !values.length) return;
      event.preventDefault();
      place = (place + step + values.length) % values.length;
      show(svg, values[place]);
    });
    button?.addEventListener("blur", hide);
  };
  enable_values(card);

  // citations
  const enable_quote = (details) => {
    const copy = make("button", { type: "button" }, "Copy");
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(details.querySelector("pre").textContent);
      copy.textContent = "Copied";
    });
    details.append(make("p", { className: "tools" }, copy));
  };

  // buttons are added when details are opened: closed ones have no tab stops
  const enable = (part) => {
    const mine = (one) => one.closest("details.more") === (part.matches("details.more") ? part : null);
    const own = (names) => [...part.querySelectorAll(names)].filter(mine);
    own("table").forEach(enable_table);
    own("figure[data-name]").forEach(enable_figure);
    own("details:has(> .quote)").forEach(enable_quote);
  };
  for (const details of document.querySelectorAll("details.more")) {
    details.addEventListener("toggle", () => enable(details), { once: true });
  }
  const reveal = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const found = id && document.getElementById(id);
    if (!found) return;
    for (let one = found.closest("details"); one; one = one.parentElement.closest("details")) {
      one.open = true;
    }
    found.scrollIntoView();
  };
  addEventListener("hashchange", reveal);

  // theme, and one trace alone
  const bar = make("p", { className: "tools" });
  const theme = make("button", { type: "button" }, "Dark or light");
  theme.addEventListener("click", () => {
    const shown = getComputedStyle(document.documentElement).colorScheme;
    const dark = shown === "dark" || (shown !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  });
  bar.append(theme);
  const names = [...document.querySelectorAll("#facts tbody b, #others b")].map((one) => one.textContent);
  if (names.length > 1) {
    const pick = make("select", { id: "pick" }, ...["All traces", ...names].map((name) => make("option", {}, name)));
    const longest = names.toSorted((one, other) => other.length - one.length);
    const word = new RegExp(`(?<![\\w-])(?:${longest.map((one) => RegExp.escape?.(one) ?? one).join("|")})(?![\\w-])`, "g");
    pick.addEventListener("change", () => {
      const wanted = pick.selectedIndex ? pick.value : null;
      const other = (one) => {
        const named = `${one.dataset.under ?? ""} ${one.textContent}`.match(word);
        return wanted !== null && named !== null && !named.includes(wanted);
      };
      for (const one of document.querySelectorAll("main .findings li, main section figure[data-name], .alerts li, .results li")) {
        one.hidden = other(one.querySelector("figcaption") ?? one);
      }
      for (const part of document.querySelectorAll("main section[id]:has(.findings)")) {
        part.hidden = !part.querySelector(".findings li:not([hidden])");
      }
    });
    bar.append(make("label", {}, "Trace ", pick));
  }
  contents.querySelector(".find").before(bar);

  // search: headings, captions, findings, definitions and cells, also those in closed details
  const list = document.getElementById("found");
  const field = document.getElementById("find");
  const name_of = (one) => one.closest("[id]:not([id$='-caption'])")?.id;
  const searched = "h2, h3, h4, figcaption, caption, .findings li, dt, td, th";
  const lines = [...document.querySelector("main").querySelectorAll(searched)]
    .map((one) => [name_of(one), one.textContent.replace(/#\s*$/, "").trim()]);
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = wanted.length ? lines.filter(([id, text]) =>
      id && wanted.every((word) => text.toLowerCase().includes(word))).slice(0, 20) : [];
    list.replaceChildren(...hits.map(([id, text]) =>
      make("li", {}, make("a", { href: `#${id}` }, text.slice(0, 300)))));
    list.hidden = !wanted.length;
    if (wanted.length && !hits.length) list.append(make("li", {}, "Nothing found"));
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list.querySelector("a")?.click();
  });
  enable(document.querySelector("main"));
  reveal();
})();
