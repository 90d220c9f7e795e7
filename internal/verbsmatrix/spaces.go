package verbsmatrix

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// SpacesPath is the path of the results of TestSpaces in the module.
const SpacesPath = "test/verbs/testdata/spaces.txt"

// SpaceResults are the results for a user space: a carrier, and what ran with it.
var SpaceResults = []string{"preload pyverbs", "seccomp pyverbs", "preload programs", "seccomp programs"}

// A Space is a user space with its versions and results, which are counts.
type Space struct {
	Name, Library, CLibrary, Perftest string
	results                           map[string]string
}

// Add adds a result.
func (s *Space) Add(name, value string) {
	if s.results == nil {
		s.results = map[string]string{}
	}
	s.results[name] = value
}

// Fields returns what a row of a table shows.
func (s *Space) Fields() []string {
	fields := []string{s.Name, s.Library, s.CLibrary, s.Perftest}
	for _, name := range SpaceResults {
		fields = append(fields, s.results[name])
	}
	return fields
}

// WriteSpaces writes the results to the file of a module. Spaces without results keep the row that they have there.
func WriteSpaces(root string, list []Space) error {
	rows, err := ReadSpaces(root)
	if err != nil {
		return err
	}
	had := map[string][]string{}
	for _, r := range rows {
		had[r[0]] = r
	}
	text := "# TestSpaces has recorded this: CIDDK_WHOLE=1 CIDDK_FULL=1 go test -timeout 2h ./test/verbs " +
		"-run TestSpaces -record-spaces\n"
	for _, s := range list {
		row := s.Fields()
		if s.results == nil {
			row = had[s.Name]
		}
		if row != nil {
			text += strings.Join(row, "; ") + "\n"
		}
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(SpacesPath)), []byte(text), 0o644)
}

// ReadSpaces reads the rows of the file of a module.
func ReadSpaces(root string) (rows [][]string, err error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(SpacesPath)))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "; ")
		if want := len((&Space{}).Fields()); len(f) != want {
			return nil, fmt.Errorf("%s: %q: want %d fields", SpacesPath, line, want)
		}
		rows = append(rows, f)
	}
	return rows, nil
}
