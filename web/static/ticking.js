// Counts down elements with data-left: the remaining seconds when the page was loaded or
// last refreshed. data-over is the text at the end.

let known = performance.now();

function words(seconds) {
  if (seconds < 60) return `${seconds} s`;
  const [size, big, small, unit] = seconds < 3600 ? [60, 'min', 1, 's'] : seconds < 86400 ? [3600, 'h', 60, 'min'] : [86400, 'd', 3600, 'h'];
  const count = Math.ceil(seconds / small) * small;
  const rest = Math.floor((count % size) / small);
  return `${Math.floor(count / size)} ${big}${rest ? ` ${rest} ${unit}` : ''}`;
}

function tick() {
  const passed = (performance.now() - known) / 1000;
  for (const element of document.querySelectorAll('[data-left]')) {
    const left = Math.ceil(element.dataset.left - passed);
    element.textContent = left > 0 ? words(left) : element.dataset.over;
  }
}

document.addEventListener('htmx:after:swap', () => {
  known = performance.now();
  tick();
});
setInterval(tick, 1000);
