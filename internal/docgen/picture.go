package main

import (
	"fmt"
	"html"
	"strings"
)

// box is one rectangle of the picture, in units of pixels; class picks its colours.
type box struct {
	x, y, w, h int
	class      string
	title      string
	lines      []string
}

// The rows of the picture, from the upper protocols down to what carries the packets. Package names are those of the layer table.
var boxes = []box{
	{20, 20, 920, 56, "user", "Upper protocols, applications, ddk-validate", []string{"everything that drives an HCA uses only ci"}},
	{20, 112, 560, 64, "kit", "accesslayer", []string{"registry, object tree, asynchronous destroy, PnP, MAD, CM, SA"}},
	{620, 112, 320, 64, "kit", "sma", []string{"vendor-neutral subnet management agent"}},
	{20, 212, 440, 64, "kit", "ual", []string{"a ci.HCA in the application's process"}},
	{500, 212, 440, 64, "kit", "kproxy", []string{"checks, tracks and cleans up for each process"}},
	{20, 312, 920, 44, "ci", "ci: the Channel Interface", nil},
	{20, 392, 215, 84, "driver", "hca/reference", []string{"software HCA:", "RC, UC, UD, SRQ, MW, …"}},
	{255, 392, 215, 84, "driver", "hca/mlx4", []string{"ConnectX-3 in user space"}},
	{490, 392, 215, 84, "vendor", "your driver", []string{"starts from templates/"}},
	{725, 392, 215, 84, "driver", "ci/ciwrap, ci/cimock", []string{"faults, traces, mocks", "in front of any of them"}},
	{20, 512, 215, 64, "kit", "rvt", []string{"the software transport"}},
	{255, 512, 215, 64, "kit", "bus", []string{"VFIO, vfio-user, model, USB"}},
	{490, 512, 215, 64, "plain", "your hardware", []string{"FPGA, ASIC, simulator"}},
	{20, 612, 450, 56, "plain", "RoCEv2 in UDP sockets · direct links · fabric", []string{"no kernel module, no root"}},
}

// arrow runs straight down from y1 to y2.
type arrow struct {
	x, y1, y2 int
	label     string
}

var arrows = []arrow{
	{300, 76, 112, ""}, {780, 76, 112, "MAD"}, {240, 176, 212, "in process: straight to ci"}, {720, 176, 212, ""},
	{240, 276, 312, ""}, {720, 276, 312, ""},
	{127, 356, 392, ""}, {362, 356, 392, ""}, {597, 356, 392, ""}, {832, 356, 392, ""},
	{127, 476, 512, ""}, {362, 476, 512, ""}, {597, 476, 512, ""}, {127, 576, 612, "Port"},
}

// picture draws the architecture. Colours come from a style sheet with a variant for dark backgrounds, so it reads on both.
func picture() string {
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 690" role="img" aria-label="Architecture of the HCA Driver Development Kit">
<!-- Written by internal/docgen: go generate ./internal/docgen -->
<style>
text{font-family:system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1b1f24}
.t{font-size:15px;font-weight:600}.l{font-size:12.5px;fill:#57606a}.a{font-size:12px;fill:#57606a}
rect{stroke-width:1.5}path{fill:none;stroke:#57606a;stroke-width:1.5}.head{fill:#57606a;stroke:none}
.user rect{fill:#eef4ff;stroke:#3b6fd4}.kit rect{fill:#f3f0ff;stroke:#7a5bd0}.ci rect{fill:#1f4fa8;stroke:#1f4fa8}.ci text{fill:#fff}
.driver rect{fill:#eaf7ee;stroke:#2c8a4b}.vendor rect{fill:#fff6e0;stroke:#b7791f;stroke-dasharray:6 4}.plain rect{fill:#f6f8fa;stroke:#8c959f}
.wall{stroke:#c0392b;stroke-dasharray:7 5}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.l,.a{fill:#9da7b3}path{stroke:#9da7b3}.head{fill:#9da7b3}
.user rect{fill:#14233f;stroke:#6d9bf1}.kit rect{fill:#231b3d;stroke:#a78bfa}.ci rect{fill:#2f6fe0;stroke:#2f6fe0}
.driver rect{fill:#10291a;stroke:#4cc273}.vendor rect{fill:#33270b;stroke:#e0a93b}.plain rect{fill:#161b22;stroke:#6e7681}.wall{stroke:#ff7b6b}}
</style>
`)
	for _, a := range arrows {
		fmt.Fprintf(&b, `<path d="M%d %dV%d"/><path class="head" d="M%d %dl-5 -8h10z"/>`+"\n", a.x, a.y1, a.y2-6, a.x, a.y2)
		if a.label != "" {
			fmt.Fprintf(&b, `<text class="a" x="%d" y="%d">%s</text>`+"\n", a.x+10, (a.y1+a.y2)/2+4, html.EscapeString(a.label))
		}
	}
	b.WriteString(`<path class="wall" d="M480 204V284"/><path d="M460 244H494"/><path class="head" d="M500 244l-8 -5v10z"/>` + "\n")
	b.WriteString(`<text class="a" x="480" y="198" text-anchor="middle">process boundary</text>` + "\n")
	for _, x := range boxes {
		cx := x.x + x.w/2
		fmt.Fprintf(&b, `<g class="%s"><rect x="%d" y="%d" width="%d" height="%d" rx="8"/>`, x.class, x.x, x.y, x.w, x.h)
		y := x.y + x.h/2 - 9*len(x.lines) + 5
		fmt.Fprintf(&b, `<text class="t" x="%d" y="%d" text-anchor="middle">%s</text>`, cx, y, html.EscapeString(x.title))
		for i, l := range x.lines {
			fmt.Fprintf(&b, `<text class="l" x="%d" y="%d" text-anchor="middle">%s</text>`, cx, y+18*(i+1), html.EscapeString(l))
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}
