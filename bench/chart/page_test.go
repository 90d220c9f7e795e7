package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bench"
)

func TestPage(t *testing.T) {
	const old = "# Speed\n<!-- table by cmd/x -->\nold\n<!-- end of table -->\nthe end\n"
	start := func(t *testing.T) (string, Page) {
		dir := t.TempDir()
		p := Page{File: filepath.Join(dir, "speed.md"), Command: "cmd/x", Infix: "-linux"}
		require.NoError(t, os.WriteFile(p.File, []byte(old), 0o600))
		return dir, p
	}
	read := func(t *testing.T, elem ...string) string {
		b, err := os.ReadFile(filepath.Join(elem...))
		require.NoError(t, err)
		return string(b)
	}
	names := func(t *testing.T, dir string) (l []string) {
		list, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range list {
			l = append(l, e.Name())
		}
		return l
	}
	t.Run("all tables", func(t *testing.T) {
		dir, p := start(t)
		require.NoError(t, p.Write("a machine", 3, sample()))
		require.Equal(t, []string{"speed-linux-bandwidth.svg", "speed-linux-latency.svg", "speed.md"}, names(t, dir))
		for _, table := range []bench.Table{bench.Bandwidth, bench.Latency} {
			svg, err := Draw(table, sample())
			require.NoError(t, err)
			require.Equal(t, string(svg), read(t, dir, "speed-linux-"+table.String()+".svg"))
		}
		text := read(t, p.File)
		require.True(t, strings.HasPrefix(text, "# Speed\n<!-- table by cmd/x -->\n\na machine. 3 rounds.\n\n| case |"),
			text)
		require.True(t, strings.HasSuffix(text, "\n<!-- end of table -->\nthe end\n"), text)
		require.Contains(t, text, "\n\n![Bars: bandwidth of SEND, WRITE by message size, reference HCA beside UDP, "+
			"TCP, "+
			"rxe, <new> & other; the figures are those of the "+
			"table below](speed-linux-bandwidth.svg)\n\n| size | operation | bandwidth |")
		require.Contains(t, text, "](speed-linux-latency.svg)\n\n| size | operation | median |")
	})
	t.Run("only one", func(t *testing.T) {
		dir, p := start(t)
		p.Infix = ""
		require.NoError(t, p.Write("a machine", 3, bench.Of(sample(), bench.Latency)))
		require.Equal(t, []string{"speed-latency.svg", "speed.md"}, names(t, dir))
		require.NotContains(t, read(t, p.File), "bandwidth")
	})
	t.Run("one that cannot be drawn", func(t *testing.T) {
		dir, p := start(t)
		require.ErrorContains(t,
			p.Write("a machine", 3, append(sample(), result(bench.Latency, 64, []string{"SEND"}, nil, 0))),
			"SEND took 0 ns")
		require.Equal(t, []string{"speed.md"}, names(t, dir))
		require.Equal(t, old, read(t, p.File))
	})
	t.Run("no place in the page", func(t *testing.T) {
		_, p := start(t)
		p.Command = "cmd/y"
		require.ErrorContains(t, p.Write("a machine", 3, sample()), "cmd/y --> is missing")
	})
	t.Run("no folder", func(t *testing.T) {
		p := Page{File: filepath.Join(t.TempDir(), "none", "speed.md"), Command: "cmd/x"}
		require.ErrorIs(t, p.Write("a machine", 3, sample()), os.ErrNotExist)
	})
}
