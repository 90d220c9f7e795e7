package cli

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// patterns is a flag that can be repeated and can have several values separated by commas. An empty pattern is an
// error, because it usually comes from a variable of a script that is not set. kong would drop it, and the selection
// would include everything.
type patterns []string

// Decode implements kong.MapperValue.
func (p *patterns) Decode(ctx *kong.DecodeContext) error {
	var s string
	if err := ctx.Scan.PopValueInto("pattern", &s); err != nil {
		return err
	}
	for x := range strings.SplitSeq(s, ",") {
		if strings.TrimSpace(x) == "" {
			return errors.New("empty pattern (leave the flag out to select everything)")
		}
		*p = append(*p, x)
	}
	return nil
}

// match reports whether one of the patterns matches a name.
func (p patterns) match(name string) bool {
	return slices.ContainsFunc(p, func(g string) bool { ok, _ := path.Match(g, name); return ok })
}

// parseShard parses I/N, with I from 1 to N.
func parseShard(s string) (i, n int, err error) {
	a, b, ok := strings.Cut(s, "/")
	i, e1 := strconv.Atoi(a)
	n, e2 := strconv.Atoi(b)
	if !ok || e1 != nil || e2 != nil || i < 1 || i > n {
		return 0, 0, fmt.Errorf("--shard %s: use I/N, such as 2/4", s)
	}
	return i, n, nil
}
