package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ciddk/fabric"
	"ciddk/internal/svg"
)

type drawCmd struct {
	From string `help:"Show the route from this node."`
	To   string `help:"Show the route to this node."`
}

// Run implements the command.
func (c *drawCmd) Run(p *program) error {
	if (c.From == "") != (c.To == "") {
		return errors.New("a route needs both --from and --to")
	}
	r, err := p.call(request{Do: "status"})
	if err != nil {
		return err
	}
	var route []hop
	if c.From != "" {
		t, err := p.call(request{Do: "trace", Node: c.From, To: c.To})
		if err != nil {
			return err
		}
		route = t.Path
	}
	return draw(p.out, r.Status, route)
}

// Measures of the drawing, in pixels.
const (
	cellWidth  = 84
	cellHeight = 130
	boxWidth   = 68
	boxHeight  = 34
	margin     = 24
	legend     = 36
)

// spot is the place of a node in the drawing.
type spot struct{ x, y int }

// rows returns the nodes by their distance from the adapters: adapters in the last row, their switches above them.
func rows(s *fabric.Status) [][]int {
	index := make(map[string]int)
	level := make([]int, len(s.Nodes))
	var queue []int
	for i, n := range s.Nodes {
		index[n.ID], level[i] = i, -1
		if n.Kind != "Switch" {
			level[i] = 0
			queue = append(queue, i)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, p := range s.Nodes[queue[0]].Ports {
			if k, ok := index[p.Peer]; ok && level[k] < 0 {
				level[k] = level[queue[0]] + 1
				queue = append(queue, k)
			}
		}
	}
	var out [][]int
	for i := range s.Nodes {
		l := max(level[i], 0)
		for len(out) <= l {
			out = append(out, nil)
		}
		out[l] = append(out[l], i)
	}
	slices.Reverse(out)
	return out
}

// style and dark have the colors for light and for dark pages, without variables, which librsvg and Inkscape lack.
const (
	style = `svg{font-size:11px}text{text-anchor:middle}.small{font-size:9px}
.left{text-anchor:start}g rect{stroke:#8c959f}.Switch{fill:#ddf4ff}.CA,.Router{fill:#fff8c5}
line{stroke-width:1.5}.active{stroke:#1a7f37}.wait{stroke:#9a6700;stroke-dasharray:6 3}
.down{stroke:#cf222e;stroke-dasharray:2 4}.route{stroke:#8250df;stroke-width:4}
`
	dark = `g rect{stroke:#6e7681}.Switch{fill:#0c2d6b}.CA,.Router{fill:#3b2300}
.active{stroke:#3fb950}.wait{stroke:#d29922}.down{stroke:#f85149}.route{stroke:#bc8cff}
`
)

// draw writes a drawing of a fabric, with the links of a route emphasized.
func draw(out io.Writer, s *fabric.Status, route []hop) error {
	levels := rows(s)
	widest := 1
	for _, r := range levels {
		widest = max(widest, len(r))
	}
	width, height := 2*margin+max(widest*cellWidth, 4*120), 2*margin+len(levels)*cellHeight+legend-cellHeight+boxHeight
	at := make(map[string]spot)
	for l, r := range levels {
		for i, n := range r {
			at[s.Nodes[n].ID] = spot{margin + (2*i+1)*(width-2*margin)/(2*len(r)), margin + l*cellHeight + boxHeight/2}
		}
	}
	w := svg.New(svg.Head{Width: float64(width), Height: float64(height), Label: "Fabric", Style: style, Dark: dark})
	drawLinks(w, s, at, onRoute(route))
	for _, n := range s.Nodes {
		drawNode(w, &n, at[n.ID])
	}
	x := margin
	for _, l := range []struct{ class, text string }{{"active", "active"}, {"wait", "up, not active"}, {"down", "down"},
		{"route", "route"}} {
		y := height - margin/2
		w.Put("line", "", "class", l.class, "x1", x, "y1", y-4, "x2", x+24, "y2", y-4)
		w.Put("text", l.text, "class", "left", "x", x+30, "y", y)
		x += 120
	}
	_, err := out.Write(w.Bytes())
	return err
}

// onRoute returns the ports of a route.
func onRoute(route []hop) map[hop]bool {
	m := make(map[hop]bool)
	for _, h := range route {
		m[h] = true
	}
	return m
}

// drawLinks draws each link once. Links between the same nodes are drawn side by side.
func drawLinks(w *svg.Picture, s *fabric.Status, at map[string]spot, route map[hop]bool) {
	parallel := make(map[[2]string]int)
	for _, n := range s.Nodes {
		for _, p := range n.Ports {
			if p.Peer == "" || p.Peer < n.ID || p.Peer == n.ID && p.PeerPort < p.Num {
				continue
			}
			a, b := at[n.ID], at[p.Peer]
			pair := [2]string{n.ID, p.Peer}
			shift := 6 * parallel[pair]
			parallel[pair]++
			class := "wait"
			switch p.State {
			case "Active":
				class = "active"
			case "Down":
				class = "down"
			}
			if route[hop{n.ID, p.Num}] && route[hop{p.Peer, p.PeerPort}] {
				class = "route"
			}
			w.Open("line", "class", class, "x1", a.x+shift, "y1", a.y, "x2", b.x+shift, "y2", b.y)
			w.Put("title", fmt.Sprintf("%s:%d - %s:%d %s %s", n.ID, p.Num, p.Peer, p.PeerPort, p.State, p.Rate))
			w.Close()
		}
	}
}

// drawNode draws a box with the name and the LIDs of a node.
func drawNode(w *svg.Picture, n *fabric.NodeStatus, at spot) {
	var lids []string
	if n.Kind == "Switch" {
		lids = append(lids, fmt.Sprint(n.LID))
	}
	for _, p := range n.Ports {
		if n.Kind != "Switch" && p.LID != 0 {
			lids = append(lids, fmt.Sprint(p.LID))
		}
	}
	name := n.Description
	if r := []rune(name); len(r) > 11 {
		name = string(r[:10]) + "…"
	}
	w.Open("g")
	w.Put("title", n.Kind+" "+n.Description)
	w.Put("rect", "", "class", n.Kind, "x", at.x-boxWidth/2, "y", at.y-boxHeight/2, "width", boxWidth,
		"height", boxHeight, "rx", 5)
	w.Put("text", name, "x", at.x, "y", at.y-2)
	w.Put("text", "LID "+strings.Join(lids, " "), "class", "small", "x", at.x, "y", at.y+11)
	w.Close()
}
