package explore

import (
	"fmt"
	"strings"
)

// Program returns a Go test that repeats a finding. Its reader supplies the driver.
func (f *Finding) Program() string {
	var b strings.Builder
	b.WriteString("package mine_test\n\n")
	b.WriteString("import (\n\t\"testing\"\n\n\t\"ciddk/ci\"\n\t\"ciddk/validate/explore\"\n)\n\n")
	b.WriteString("// " + strings.ReplaceAll(strings.TrimSpace(f.Story()), "\n", "\n// ") + "\n")
	b.WriteString("func TestTrace(t *testing.T) {\n\texplore.Replay(t, driver, explore.Trace{\n")
	for _, s := range f.Trace {
		fmt.Fprintf(&b, "\t\t%s,\n", literal(s))
	}
	b.WriteString("\t})\n}\n\nvar _ ci.Status\n")
	return b.String()
}
