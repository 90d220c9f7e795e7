package validate

import (
	"slices"
	"strings"
)

// Nearest returns up to three candidates that are similar to s, best first: those that contain s, then the others by
// edit distance.
func Nearest(s string, candidates []string) []string {
	type scored struct {
		name string
		d    int
	}
	s = strings.ToLower(s)
	bare := strings.Trim(s, "*?.")
	var all []scored
	for _, c := range candidates {
		l := strings.ToLower(c)
		d := distance(s, l)
		if bare != "" && strings.Contains(l, bare) {
			d = 0
		}
		if d <= max(2, len(s)/2) {
			all = append(all, scored{c, d})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return a.d - b.d })
	var out []string
	for _, x := range all[:min(3, len(all))] {
		out = append(out, x.name)
	}
	return out
}

// didYouMean returns the end of an error message that suggests candidates similar to s, or "".
func didYouMean(s string, candidates []string) string {
	if n := Nearest(s, candidates); len(n) > 0 {
		return "; did you mean " + strings.Join(n, ", ") + "?"
	}
	if len(candidates) <= 8 {
		return "; valid names are " + strings.Join(candidates, ", ")
	}
	return ""
}

// distance returns the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diag, row[j] = row[j], min(row[j]+1, row[j-1]+1, diag+cost)
		}
	}
	return row[len(b)]
}
