// The limits form says in words what each row means while it is typed. The server says the same after a round trip.

const grouped = /^\d{1,3}([,\s]\d{3})+$/;

function parse(text) {
  const trimmed = text.trim();
  if (!/^\d+$/.test(trimmed) && !grouped.test(trimmed)) return 0;
  return Number(trimmed.replace(/[,\s]/g, ''));
}

const units = [['day', 86_400_000], ['hour', 3_600_000], ['minute', 60_000], ['second', 1000], ['millisecond', 1]];

// A window is named by the longest unit that divides it, as everywhere else: 90 minutes stay, 120 minutes are 2 hours.
function windowWords(milliseconds) {
  const [unit, size] = units.find(([, size]) => milliseconds % size === 0);
  const count = milliseconds / size;
  return count === 1 ? unit : `${count} ${unit}s`;
}

function words(row) {
  const field = (name) => row.querySelector(`[name$=".${name}"]`).value;
  const requests = parse(field('requests'));
  const count = parse(field('window'));
  if (!requests || !count) return '';
  const size = new Map(units).get(field('unit'));
  return `${requests.toLocaleString('en-US')} per ${windowWords(count * size)}`;
}

document.getElementById('limits-form')?.addEventListener('input', (event) => {
  const row = event.target.closest('fieldset');
  if (row) row.querySelector('output').textContent = words(row);
});
