// Menus are details elements with the class pop. A click elsewhere and Escape close them.

const menus = () => document.querySelectorAll('details.pop[open]');

document.addEventListener('click', ({ target }) => {
  for (const menu of menus()) if (!menu.contains(target)) menu.open = false;
});
document.addEventListener('keydown', ({ key }) => {
  if (key !== 'Escape' || document.querySelector('dialog[open]')) return;
  for (const menu of menus()) {
    if (menu.contains(document.activeElement)) menu.querySelector('summary').focus();
    menu.open = false;
  }
});
