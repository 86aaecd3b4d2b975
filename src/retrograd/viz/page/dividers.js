// The bars between the panes, which can be dragged, or moved by the arrow keys.

const [NARROWEST, NUDGE] = [180, 24]; // pixels

/** "towards" is 1 if the pane grows as the bar goes to the right, and -1 otherwise. */
function listenToDivider(bar, pane, towards) {
  const panes = pane.parentElement;
  const name = `--${pane.id}-width`;
  const set = (width) => {
    const most = panes.clientWidth * 0.6;
    const taken = Math.round(Math.min(Math.max(width, NARROWEST), most));
    panes.style.setProperty(name, `${taken}px`);
    bar.setAttribute("aria-valuenow", Math.round((taken / panes.clientWidth) * 100));
  };
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    const [start, width] = [event.clientX, pane.offsetWidth];
    const move = ({ clientX }) => set(width + (clientX - start) * towards);
    bar.addEventListener("pointermove", move);
    bar.addEventListener("lostpointercapture", () => bar.removeEventListener("pointermove", move),
      { once: true });
  });
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -NUDGE, ArrowRight: NUDGE }[event.key];
    if (!by) return;
    set(pane.offsetWidth + by * towards);
    event.preventDefault();
    event.stopPropagation(); // these keys are for steps elsewhere
  });
  bar.addEventListener("dblclick", () => panes.style.removeProperty(name));
}
