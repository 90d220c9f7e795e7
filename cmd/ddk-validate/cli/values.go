package cli

import (
	"errors"
	"strings"

	"github.com/alecthomas/kong"
)

// patterns is a flag that can be given several times, or once with commas. An empty pattern is refused, which kong would drop: it comes from a
// variable of a script that is not set, and would widen the selection to everything.
type patterns []string

// Decode implements kong.MapperValue.
func (p *patterns) Decode(ctx *kong.DecodeContext) error {
	var s string
	if err := ctx.Scan.PopValueInto("pattern", &s); err != nil {
		return err
	}
	for _, x := range strings.Split(s, ",") {
		if strings.TrimSpace(x) == "" {
			return errors.New("an empty pattern; leave the flag out to select everything")
		}
		*p = append(*p, x)
	}
	return nil
}
