(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const root = document.documentElement;
  const find = (id) => document.getElementById(id);

  // The theme: the system's until the button is used.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const button = find("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  function showTheme() {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Switch to the light theme" : "Switch to the dark theme");
  }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  dark.addEventListener("change", showTheme);
  showTheme();
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));

  // Numbers, written by the same rules as in _format.py.
  const none = "–";
  const trimmed = (value, digits) => value.toFixed(digits).replace(/\.?0+$/, "");
  function rate(share) {
    if (share === null) return none;
    const percent = 100 * share;
    const rest = 100 - percent;
    let scale = 10;
    let digits = 1;
    while (digits < 9 && ((0 < percent && percent < scale) || (0 < rest && rest < 0.005 * scale))) {
      scale /= 10;
      digits += 1;
    }
    return trimmed(percent, digits) + "\u00a0%";
  }
  function amount(value) {
    if (value === null) return none;
    if (value === 0 || value >= 10) return value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
    let scale = 1;
    let digits = 1;
    while (digits < 9 && value < scale) {
      scale /= 10;
      digits += 1;
    }
    return trimmed(value, digits);
  }
  // A sum of amounts as they are shown.
  function total(...parts) {
    if (parts.includes(null)) return none;
    return amount(parts.reduce((sum, part) => sum + Number(amount(part).replace(/,/g, "")), 0));
  }
  function score(value) {
    if (value === null) return none;
    return String(Number(Math.abs(value).toPrecision(4))).replace(/^/, value < 0 ? "−" : "");
  }

  const slider = find("tau");
  if (!slider) return;
  const controls = find("controls");
  const grid = data.slider;
  let state;

  // What the controls say. A field that nobody has changed stands for the exact number, which it shows rounded.
  function number(key, most, unit, exact) {
    const input = find(key);
    if (input.value === input.defaultValue) return exact;
    const value = input.value.trim() === "" ? NaN : Number(input.value);
    return value >= 0 && value <= most ? value / unit : null;
  }
  function read() {
    return {
      at: Number(slider.value),
      way: new FormData(controls).get("way") || "measured",
      volume: number("volume", Infinity, 1, data.volume_per_day),
      base: number("base", 100, 100, data.base_rate),
    };
  }

  // What a threshold means at this volume and base rate; null where something is not known.
  function figures(point) {
    const times = (number, share) => (number === null || share === null ? null : number * share);
    const fpr = point && data.n_negative ? point.n_false / data.n_negative : null;
    const recall = point && data.n_positive ? point.n_true / data.n_positive : null;
    const known = state.base !== null && state.volume !== null;
    const positives = known ? state.volume * state.base : null;
    const found = { fpr: fpr, fpr_upper: point ? point.fpr_upper : null, recall: recall, threshold: point ? point.threshold : null };
    found.true_alarms = state.base === 0 && known ? 0 : times(positives, recall);
    found.false_alarms = known ? times(state.volume * (1 - state.base), fpr) : null;
    found.alarms = found.true_alarms === null || found.false_alarms === null ? null : found.true_alarms + found.false_alarms;
    found.missed = recall === null ? null : times(positives, 1 - recall);
    found.precision = null;
    if (state.base !== null && fpr !== null && recall !== null) {
      const good = state.base * recall;
      const all = good + (1 - state.base) * fpr;
      found.precision = all > 0 ? good / all : null;
    }
    return found;
  }
  function show(column, found) {
    for (const [name, value] of Object.entries(found)) {
      const cell = find(column + "-" + name);
      if (!cell) continue;
      if (name === "threshold") {
        if (column === "tried") cell.textContent = score(value);
      } else {
        const write = /alarms|missed/.test(name) ? amount : rate;
        cell.textContent = name === "alarms" ? total(found.true_alarms, found.false_alarms) : write(value);
      }
      cell.dataset.value = value === null ? "" : String(value);
    }
  }
  function pick() {
    const column = grid[state.way];
    if (column.threshold[state.at] === null) return null;
    return Object.fromEntries(Object.entries(column).map(([name, values]) => [name, values[state.at]]));
  }
  function move(found) {
    const share = Math.log(Math.max(found.fpr || 0, data.roc_low) / data.roc_low) / -Math.log(data.roc_low);
    const ring = find("tried");
    if (ring) {
      ring.style.left = 100 * share + "%";
      ring.style.bottom = 100 * (found.recall || 0) + "%";
      ring.style.visibility = found.fpr === null ? "hidden" : "visible";
    }
    const line = find("tried-score");
    if (line && data.raw_score_range) {
      const [low, high] = data.raw_score_range;
      const place = found.threshold === null ? -1 : (found.threshold - low) / (high - low);
      line.style.left = 100 * place + "%";
      line.style.opacity = place >= 0 && place <= 1 && state.at !== grid.own ? 1 : 0;
    }
  }
  function update() {
    state = read();
    const tau = grid.tau[state.at];
    const found = figures(pick());
    show("used", figures(data.operating));
    show("tried", found);
    find("tau-out").textContent = rate(tau);
    find("tried-name").textContent = "At τ\u00a0=\u00a0" + rate(tau);
    find("tried-note").textContent =
      found.fpr === null
        ? "A guarantee at " + rate(tau) + " takes at least " + amount(grid.needed[state.at]) + " harmless cases; there are " + amount(data.n_negative) + "."
        : "";
    slider.style.setProperty("--at", (100 * state.at) / Math.max(1, Number(slider.max)) + "%");
    slider.setAttribute(
      "aria-valuetext",
      "tolerance " + rate(tau) + ": false-alarm rate " + rate(found.fpr) + ", recall " + rate(found.recall)
    );
    move(found);
  }
  controls.addEventListener("input", update);
  controls.addEventListener("submit", (event) => event.preventDefault());
  slider.addEventListener("keydown", (event) => {
    const step = { PageUp: 10, PageDown: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    slider.value = String(Number(slider.value) + step);
    update();
  });
  find("put-back").addEventListener("click", () => {
    controls.reset();
    update();
  });
  update();
})();
