"use strict";
// A handful of listeners on whole regions, none on tokens: 10,000 of them cost what ten cost.
(() => {
  const traces = JSON.parse(document.getElementById("data").textContent).map(expand);
  const detail = document.getElementById("detail");
  const states = { right: "accepted", wrong: "rejected", idle: "not tested" };
  let shown = null; // the token that the panel is about
  let wanted = null; // the one it will be about at the next frame

  function expand(trace) {
    let end = 0;
    let emitted = 0;
    trace.steps = trace.steps.map((packed, index) => {
      const [kind, tokens, guesses, parents, path, drafters, times, confidence, reasons] = packed;
      const step = { kind, tokens, guesses, path, drafters, times, confidence, reasons, start: end, first: emitted };
      step.parents = parents || guesses.map((_, node) => node - 1);
      step.milliseconds = times[0] + times[1] + times[2];
      emitted += tokens.length;
      if (index > 0) end += step.milliseconds;
      return step;
    });
    return { ...trace, milliseconds: end, emitted };
  }

  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // Where a token stands: in which trace, which step, and as which of its tokens.
  function place(token) {
    const step = token.parentNode;
    return {
      trace: Number(token.closest(".text").dataset.trace),
      step: Number(step.dataset.s),
      index: Array.prototype.indexOf.call(step.children, token),
    };
  }

  const textOf = (trace) => document.querySelector(`.text[data-trace="${trace}"]`);
  const stepOf = (trace, step) => textOf(trace).querySelector(`.s[data-s="${step}"]`);

  function state(step, node) {
    if (step.path.includes(node)) return "right";
    const last = step.path.length ? step.path[step.path.length - 1] : -1;
    return step.parents[node] === last && step.kind !== "cut" ? "wrong" : "idle";
  }

  function chip(trace, token, className) {
    const text = trace.texts[token].replace(/\n/g, "↵");
    const made = element("bdi", `chip ${className}`, /[^ ↵]/.test(text) ? text : text.replace(/ /g, "␣"));
    // For those who hear the page.
    if (states[className]) made.append(element("span", "spoken", ` (${states[className]})`));
    return made;
  }


  // The guesses, one line per path of the tree.
  function draft(trace, step) {
    const lines = [];
    const isParent = new Set(step.parents);
    step.guesses.forEach((_, leaf) => {
      if (isParent.has(leaf)) return;
      const line = element("p");
      const nodes = [];
      for (let node = leaf; node >= 0; node = step.parents[node]) nodes.unshift(node);
      line.append(`${trace.names[step.drafters[leaf]]} guessed: `);
      nodes.forEach((node) => line.append(chip(trace, step.guesses[node], state(step, node))));
      if (step.confidence) {
        const percent = nodes.map((node) => Math.round(100 * step.confidence[node])).join(", ");
        line.append(element("small", "", `probability ${percent} %`));
      }
      lines.push(line);
    });
    return lines;
  }

  const endings = {
    plain: "nothing was guessed",
    correction: "a guess was wrong, and the model's own token took its place",
    bonus: "all guesses were right, and the model's next token was added",
    cut: "the text ended within the guesses",
  };

  function describe(trace, number, index) {
    const step = trace.steps[number];
    const accepted = index < step.path.length;
    const head = element("p");
    head.append(chip(trace, step.tokens[index], ""));
    head.append(` token ${step.first + index + 1} of ${trace.emitted}, `);
    let origin = "the model's own";
    if (accepted) origin = `guessed by ${trace.names[step.drafters[step.path[index]]]}`;
    else if (step.kind === "correction") origin = "the model's own, in place of a wrong guess";
    else if (step.kind === "bonus") origin = "the model's own, after guesses that were all right";
    head.append(element("strong", "", origin));
    const [propose, forward, rest] = step.times.map((time) => time.toFixed(1));
    const spent = `${step.milliseconds.toFixed(1)} ms: guessing ${propose}, checking ${forward}, rest ${rest}`;
    const tail = element("p", "", `Step ${number + 1} of ${trace.steps.length}: ${endings[step.kind]}`);
    if (step.kind === "correction") tail.append(": ", chip(trace, step.tokens[step.tokens.length - 1], ""));
    tail.append(` (${spent})`);
    const why = step.reasons ? [element("p", "why", `Controller: ${step.reasons}.`)] : [];
    return [head, ...draft(trace, step), tail, ...why];
  }

  function show(token) {
    if (shown === token) return;
    if (shown) {
      shown.classList.remove("on");
      shown.parentNode.classList.remove("on");
    }
    shown = token;
    if (!token) return detail.replaceChildren();
    const { trace, step, index } = place(token);
    token.classList.add("on");
    token.parentNode.classList.add("on");
    detail.replaceChildren(...describe(traces[trace], step, index));
    moveCursor(trace, step);
  }

  function showSoon(token) {
    if (wanted === null) requestAnimationFrame(() => { show(wanted); wanted = null; });
    wanted = token;
  }

  function moveCursor(trace, number) {
    const chart = document.getElementById(`steps-${trace}`);
    if (!chart || number < 1) return;
    const { steps, milliseconds } = traces[trace];
    const width = chart.viewBox.baseVal.width;
    const cursor = chart.querySelector(".cursor");
    const left = steps[number].start / milliseconds;
    cursor.setAttribute("x", left * width);
    const frame = chart.parentNode;
    const visible = left * frame.scrollWidth - frame.scrollLeft;
    if (visible < 0 || visible > frame.clientWidth) {
      frame.scrollLeft = left * frame.scrollWidth - frame.clientWidth / 2;
    }
    cursor.setAttribute("width", Math.max(2, (steps[number].milliseconds / milliseconds) * width));
    const said = `step ${number + 1}: ${steps[number].path.length} guesses right`;
    chart.setAttribute("aria-valuenow", number);
    chart.setAttribute("aria-valuetext", said);
  }

  // One token per text can be reached by the tab key: the one that had the focus last.
  function focus(token) {
    if (!token) return;
    const text = token.closest(".text");
    text.querySelectorAll('[tabindex="0"]').forEach((other) => { other.tabIndex = -1; });
    token.tabIndex = 0;
    token.focus({ preventScroll: true });
    const bring = () => token.scrollIntoView({ block: "nearest", inline: "nearest" });
    bring();
    requestAnimationFrame(bring); // blocks that were not laid out before have their true height only now
  }

  function neighbour(token, direction) {
    const side = direction > 0 ? "nextElementSibling" : "previousElementSibling";
    const edge = direction > 0 ? "firstElementChild" : "lastElementChild";
    if (token[side]) return token[side];
    const step = nextStep(token, direction);
    return step && step[edge];
  }

  function nextStep(token, direction) {
    const { trace, step } = place(token);
    return stepOf(trace, step + direction);
  }

  function keyInText(event) {
    const token = event.target.closest(".t");
    if (!token || event.altKey || event.ctrlKey || event.metaKey) return;
    const text = token.closest(".text");
    const goals = {
      ArrowRight: () => neighbour(token, 1),
      ArrowLeft: () => neighbour(token, -1),
      ArrowDown: () => nextStep(token, 1)?.firstElementChild,
      ArrowUp: () => nextStep(token, -1)?.firstElementChild,
      Home: () => text.querySelector(".t"),
      End: () => text.lastElementChild.lastElementChild.lastElementChild,
    };
    if (!goals[event.key]) return;
    event.preventDefault();
    focus(goals[event.key]());
  }

  // The last step that begins before x.
  function stepAt(chart, clientX) {
    const trace = traces[chart.dataset.trace];
    const box = chart.getBoundingClientRect();
    const time = ((clientX - box.left) / box.width) * trace.milliseconds;
    let low = 1;
    let high = trace.steps.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (trace.steps[middle].start <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  function keyInChart(event, chart) {
    const last = traces[chart.dataset.trace].steps.length - 1;
    const now = Number(chart.getAttribute("aria-valuenow"));
    const goals = {
      ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1,
      PageUp: now + 10, PageDown: now - 10, Home: 1, End: last,
    };
    if (!(event.key in goals)) return;
    event.preventDefault();
    const number = Math.min(Math.max(goals[event.key], 1), last);
    show(stepOf(chart.dataset.trace, number).firstElementChild);
  }

  function fillTable(details) {
    if (details.querySelector("table")) return;
    const trace = traces[details.dataset.trace];
    const table = element("table");
    const head = table.createTHead().insertRow();
    ["step", "emitted", "guessed", "accepted", "ended", "ms"].forEach((name) => {
      head.append(element("th", "", name));
    });
    const body = table.createTBody();
    trace.steps.forEach((step, number) => {
      const row = body.insertRow();
      const texts = (tokens) => tokens.map((token) => JSON.stringify(trace.texts[token])).join(" ");
      const ms = step.milliseconds.toFixed(1);
      const cells = [number + 1, texts(step.tokens), texts(step.guesses), step.path.length, step.kind, ms];
      cells.forEach((cell) => row.append(element("td", "", cell)));
    });
    details.append(table);
  }

  const tokenOf = (event) => event.target.closest?.(".text .t");
  const chartOf = (event) => event.target.closest?.(".timeline");

  document.addEventListener("mouseover", (event) => {
    const token = tokenOf(event);
    if (token) showSoon(token);
  });
  document.addEventListener("mousemove", (event) => {
    const chart = chartOf(event);
    if (chart) showSoon(stepOf(chart.dataset.trace, stepAt(chart, event.clientX)).firstElementChild);
  });
  document.addEventListener("focusin", (event) => {
    const token = tokenOf(event);
    if (token) show(token);
  });
  document.addEventListener("click", (event) => {
    const token = tokenOf(event);
    const chart = chartOf(event);
    if (token) focus(token);
    else if (chart) focus(stepOf(chart.dataset.trace, stepAt(chart, event.clientX)).firstElementChild);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show(null);
    else if (chartOf(event)) keyInChart(event, chartOf(event));
    else keyInText(event);
  });
  document.addEventListener("toggle", (event) => {
    if (event.target.matches("details.steps") && event.target.open) fillTable(event.target);
  }, true);
})();
