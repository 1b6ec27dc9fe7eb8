// Draws the figures of a report. Each element with data-figure names a script element that holds a Vega
// specification as JSON; expressions are interpreted, not compiled, so that the page's Content-Security-Policy
// can forbid eval. Figures follow the width of their column; print uses the drawing as it stands, scaled.
"use strict";
(function () {
    const parser = modules("vega-parser");
    const { View } = modules("vega-view");
    const { expressionInterpreter } = modules("vega-interpreter");
    Object.assign(modules("vega-dataflow").transforms, modules("vega-transforms"),
        modules("vega-view-transforms"), modules("vega-encode"));

    const root = document.documentElement;
    const charts = Array.from(document.querySelectorAll("[data-figure]"));
    const views = new Map();
    let failures = 0;

    const width_of = (element) => Math.max(240, Math.floor(element.clientWidth));

    function failed(element, error) {
        failures += 1;
        element.classList.add("failed");
        element.textContent = "This figure could not be drawn (" + error.message + "). Its numbers are in the table below.";
        console.error(element.dataset.figure, error);
    }

    async function draw(element) {
        const spec = JSON.parse(document.getElementById(element.dataset.figure).textContent);
        const view = new View(parser.parse(spec, null, { ast: true }),
            { expr: expressionInterpreter, renderer: "svg", container: element, hover: false });
        view.width(width_of(element));
        await view.runAsync();
        // A drawing has the size that its labels need; the second pass lets legends settle.
        await view.resize().runAsync();
        const svg = element.querySelector("svg");
        svg.setAttribute("focusable", "false");
        views.set(element, view);
    }

    async function draw_all() {
        for (const element of charts) {
            try {
                await draw(element);
            } catch (error) {
                failed(element, error);
            }
        }
        root.dataset.figures = String(views.size);
        root.dataset.failures = String(failures);
    }

    let pending = 0;
    window.addEventListener("resize", () => {
        cancelAnimationFrame(pending);
        pending = requestAnimationFrame(() => {
            for (const [element, view] of views)
                view.width(width_of(element)).resize().runAsync();
        });
    });
    // What is folded on the screen is unfolded on paper, where nobody can click.
    let opened = [];
    window.addEventListener("beforeprint", () => {
        opened = Array.from(document.querySelectorAll("details.print:not([open])"));
        for (const details of opened)
            details.open = true;
    });
    window.addEventListener("afterprint", () => {
        for (const details of opened)
            details.open = false;
    });

    draw_all();
})();
