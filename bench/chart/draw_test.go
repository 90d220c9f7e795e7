package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/bench"
)

func entries(names ...string) []bench.Entry {
	var l []bench.Entry
	for _, n := range names {
		l = append(l, bench.Entry{Name: n, What: "what it is"})
	}
	return l
}

// result returns a result with one round of each entry.
func result(t bench.Table, bytes int, ops, yards []string, ns ...float64) bench.Result {
	r := bench.Result{Case: bench.Case{Name: "case", Table: t, Bytes: bytes, Ours: entries(ops...),
		Yards: entries(yards...)}}
	for _, v := range ns {
		r.Entries = append(r.Entries, bench.Figures{NS: []float64{v}, P99: []float64{v}})
	}
	return r
}

// sample has one case with all operations and two with one each, out of order, and a yardstick that only one case has.
func sample() []bench.Result {
	return []bench.Result{
		result(bench.Bandwidth, 1<<20, []string{"SEND", "WRITE"}, []string{"UDP", "TCP"}, 200_000, 250_000,
			125_000, 160_000),
		result(bench.Latency, 1<<20, []string{"SEND"}, []string{"UDP"}, 1_570_000, 920_000),
		result(bench.Bandwidth, 64, []string{"SEND"}, []string{"rxe", "UDP"}, 400, 1600, 800),
		result(bench.Ratios, 64, []string{"ours"}, []string{"yardstick"}, 1, 1),
		result(bench.Bandwidth, 64, []string{"WRITE"}, []string{"UDP", "<new> & other"}, 200, 640, 500),
		result(bench.Latency, 64, []string{"READ"}, []string{"UDP"}, 5600, 4030),
	}
}

// A drawing is the content of an SVG.
type drawing struct {
	texts []string
	fills map[string]int // number of areas by colour
	fonts string         // of the root element
}

// parse parses an SVG completely.
func parse(svg []byte) (drawing, error) {
	d := drawing{fills: map[string]int{}}
	dec := xml.NewDecoder(strings.NewReader(string(svg)))
	attr := func(e xml.StartElement, name string) string {
		for _, a := range e.Attr {
			if a.Name.Local == name {
				return a.Value
			}
		}
		return ""
	}
	roots, depth := 0, 0
	var text *strings.Builder
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			if roots != 1 {
				return d, errors.New("not one root")
			}
			return d, nil
		}
		if err != nil {
			return d, err
		}
		switch e := tok.(type) {
		case xml.StartElement:
			if depth == 0 {
				roots++
				d.fonts = attr(e, "font-family")
				if e.Name.Local != "svg" || e.Name.Space != "http://www.w3.org/2000/svg" {
					return d, errors.New("the root is " + e.Name.Local)
				}
			}
			depth++
			switch e.Name.Local {
			case "text":
				text = &strings.Builder{}
			case "rect":
				d.fills[attr(e, "fill")]++
			}
		case xml.CharData:
			if text != nil {
				text.Write(e)
			}
		case xml.EndElement:
			depth--
			if e.Name.Local == "text" {
				d.texts, text = append(d.texts, text.String()), nil
			}
		}
	}
}

func TestDraw(t *testing.T) {
	for _, tt := range []struct {
		table bench.Table
		texts []string       // in this order; others may stand between
		each  map[string]int // number of occurrences
		fills map[string]int // bars and legend squares
	}{
		{bench.Bandwidth, []string{
			"Bandwidth by message size, best round: more is better", "reference HCA", "UDP", "TCP", "rxe",
			"<new> & other",
			"messages of 64 B", "SEND", "WRITE", "bandwidth, MB/s", "0", "50", "100", "160", "80.0", "40.0",
			"320", "100", "128",
			"messages of 1 MiB", "SEND", "WRITE", "bandwidth, GB/s", "0", "2", "4", "5.24", "8.39", "6.55",
			"4.19", "8.39", "6.55",
		}, map[string]int{"SEND": 2, "WRITE": 2, "rxe": 1, "TCP": 1, "reference HCA": 1}, map[string]int{"#0072B2": 5,
			"#9A9A9A": 5, "#E69F00": 3, "#D55E00": 2, "#CC79A7": 2}},
		{bench.Latency, []string{
			"Latency by message size, median of the best round: less is better", "reference HCA", "UDP",
			"messages of 64 B", "READ", "latency, us", "0", "1", "6", "5.60", "4.03", "messages of 1 MiB",
			"SEND", "latency, ms",
			"1", "1.57", "0.92",
		}, map[string]int{"SEND": 1, "READ": 1, "UDP": 1, "TCP": 0}, map[string]int{"#0072B2": 3, "#9A9A9A": 3}},
	} {
		t.Run(tt.table.String(), func(t *testing.T) {
			svg, err := Draw(tt.table, sample())
			require.NoError(t, err)
			d, err := parse(svg)
			require.NoError(t, err)
			rest := d.texts
			for _, want := range tt.texts {
				at := slices.Index(rest, want)
				require.GreaterOrEqual(t, at, 0, "%q is missing in %q", want, rest)
				rest = rest[at+1:]
			}
			for text, n := range tt.each {
				require.Len(t, slices.DeleteFunc(slices.Clone(d.texts), func(s string) bool { return s != text }), n,
					text)
			}
			require.Equal(t, 1, d.fills[""], "the background has the colour of its class")
			delete(d.fills, "")
			require.Equal(t, tt.fills, d.fills)
			require.Contains(t, d.fonts, "sans-serif", "viewers need not have the others")
			again, err := Draw(tt.table, sample())
			require.NoError(t, err)
			require.Equal(t, svg, again, "the same results, other bytes")
			require.Less(t, len(svg), 20_000)
		})
	}
}

func TestDrawRefuses(t *testing.T) {
	ops, yards := []string{"SEND"}, []string{"UDP"}
	without := result(bench.Latency, 64, ops, yards, 1, 1)
	without.Entries[1].NS = nil
	for _, tt := range []struct {
		name, want string
		table      bench.Table
		results    []bench.Result
	}{
		{"nothing", "chart of bandwidth: no such case was measured", bench.Bandwidth, nil},
		{"only others", "chart of latency: no such case was measured", bench.Latency, sample()[:1]},
		{"no sizes", "chart of ratios: only bandwidth and latency are by message size", bench.Ratios, sample()},
		{"no operation", "case: no operation was measured", bench.Latency,
			[]bench.Result{result(bench.Latency, 64, nil, yards, 1)}},
		{"no bytes", "messages of 0 bytes", bench.Bandwidth,
			[]bench.Result{result(bench.Bandwidth, 0, ops, yards, 1, 1)}},
		{"no figures", "0 entries have figures, of 2", bench.Latency,
			[]bench.Result{result(bench.Latency, 64, ops, yards)}},
		{"no round", "case: UDP has no round", bench.Latency, []bench.Result{without}},
		{"no time", "SEND took 0 ns", bench.Bandwidth, []bench.Result{result(bench.Bandwidth, 64, ops, yards, 0, 1)}},
		{"no time of a yardstick", "UDP took 0 ns", bench.Latency,
			[]bench.Result{result(bench.Latency, 64, ops, yards, 1, 0)}},
		{"negative", "SEND took -1 ns", bench.Latency, []bench.Result{result(bench.Latency, 64, ops, yards, -1, 1)}},
		{"no number", "SEND took NaN ns", bench.Latency,
			[]bench.Result{result(bench.Latency, 64, ops, yards, math.NaN(), 1)}},
		{"never", "SEND took +Inf ns", bench.Bandwidth,
			[]bench.Result{result(bench.Bandwidth, 64, ops, yards, math.Inf(1), 1)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svg, err := Draw(tt.table, tt.results)
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, svg)
		})
	}
}

// TestDrawAnything checks that any figures lead to an error or to a picture that shows all of them.
func TestDrawAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := rapid.SampledFrom([]bench.Table{bench.Bandwidth, bench.Latency}).Draw(t, "table")
		time := rapid.OneOf(rapid.Float64Range(0.1, 1e12), rapid.Float64Range(0.1, 1e12), rapid.Float64Range(0.1, 1e12),
			rapid.Float64())
		var results []bench.Result
		good, bars := true, 0
		for range rapid.IntRange(0, 4).Draw(t, "cases") {
			yards := []string{"rxe", "UDP", "UDP in trains", "TCP"}[:rapid.IntRange(0, 4).Draw(t, "yardsticks")]
			ns := make([]float64, 1+len(yards))
			for i := range ns {
				ns[i] = time.Draw(t, "ns")
				v := ns[i]
				if table == bench.Bandwidth {
					v = 64 / v
				}
				good = good && v > 0 && !math.IsInf(v*1e9, 1)
			}
			bars += len(ns)
			results = append(results, result(table, 64, []string{"SEND"}, yards, ns...))
		}
		svg, err := Draw(table, results)
		if err != nil {
			if good && len(results) > 0 {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		d, err := parse(svg)
		if err != nil {
			t.Fatal(err)
		}
		fills := 0
		for colour, n := range d.fills {
			if colour != "" {
				fills += n - 1 // of the legend
			}
		}
		if fills != bars {
			t.Fatalf("%d bars of %d", fills, bars)
		}
	})
}

func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Float64Range(1e-6, 1e9).Draw(t, "most")
		l := ticks(most)
		if len(l) < 5 || len(l) > 10 || l[0].value != 0 || l[0].label != "0" || l[len(l)-1].value > most {
			t.Fatalf("%v for %v", l, most)
		}
	})
	var labels []string
	for _, k := range ticks(1.73) {
		labels = append(labels, k.label)
	}
	require.Equal(t, []string{"0", "0.2", "0.4", "0.6", "0.8", "1", "1.2", "1.4", "1.6"}, labels)
}

func TestLabel(t *testing.T) {
	for want, v := range map[string]float64{"0.029": 0.0292, "0.14": 0.1364, "0.9": 0.9, "0.99": 0.99, "1.00": 0.999,
		"9.16": 9.158, "31.0": 31, "964": 963.7} {
		require.Equal(t, want, label(v))
	}
}
