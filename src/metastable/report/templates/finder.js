"use strict";
// Shows the claims that hold all words of the box and every chosen value; opens the one asked for.
(() => {
  const form = document.getElementById("finder");
  const told = document.getElementById("finder-count");
  const claims = [...document.querySelectorAll("details.claim")];
  const texts = claims.map((claim) => claim.textContent.toLowerCase());
  const narrow = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...form.querySelectorAll("select")].filter((each) => each.value);
    let shown = 0;
    claims.forEach((claim, k) => {
      const fits = words.every((word) => texts[k].includes(word)) &&
        chosen.every((each) => (claim.dataset[each.name] || "").split("|").includes(each.value));
      claim.hidden = !fits;
      shown += fits;
    });
    const all = words.length + chosen.length === 0;
    document.querySelectorAll("section").forEach((section) => {
      const own = [...section.querySelectorAll("details.claim")];
      section.hidden = !all && (own.length === 0 || own.every((claim) => claim.hidden));
    });
    document.querySelectorAll(".lead .wide, .lead dl").forEach((each) => { each.hidden = !all; });
    told.textContent = `${shown} of ${claims.length} claims`;
  };
  const reveal = () => {
    const asked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!asked) return;
    if (asked.matches("details")) asked.open = true;
    if (asked.hidden || asked.closest("[hidden]")) { form.reset(); narrow(); }
    asked.scrollIntoView();
  };
  form.hidden = false;
  form.addEventListener("input", narrow);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(narrow));
  addEventListener("hashchange", reveal);
  narrow();
  reveal();
})();
