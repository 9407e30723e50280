// Times come in UTC. Here they can be shown in the zone of the browser, which the server
// does not know. Texts name their zone.

const setting = 'tidegate-local-time';
const button = document.getElementById('zone');

const local = () => localStorage.getItem(setting) === 'on';

function words(machine) {
  if (!local()) return `${machine.replace('T', ' ').slice(0, 19)} UTC`;
  return new Date(machine).toLocaleString('sv-SE', { timeZoneName: 'short' });
}

function show() {
  button.setAttribute('aria-pressed', String(local()));
  for (const time of document.querySelectorAll('time[datetime]')) {
    const text = words(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
  }
}

button.hidden = false;
button.addEventListener('click', () => {
  localStorage.setItem(setting, local() ? 'off' : 'on');
  show();
  document.dispatchEvent(new Event('zone'));
});
document.addEventListener('htmx:after:swap', show);
if (local()) show();
