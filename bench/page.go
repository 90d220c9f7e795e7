package bench

import (
	"fmt"
	"os"
	"strings"
)

// ReplaceTable puts a command's output into a page, between the lines <!-- table by COMMAND --> and <!-- end of table
// -->.
func ReplaceTable(page, command, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	with, err := replace(string(old), command, text)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(with), 0o644)
}

func replace(page, command, text string) (string, error) {
	from, to := "<!-- table by "+command+" -->\n", "<!-- end of table -->\n"
	head, rest, ok := strings.Cut(page, from)
	if !ok {
		return "", fmt.Errorf("the line %s is missing", strings.TrimSpace(from))
	}
	_, tail, ok := strings.Cut(rest, to)
	if !ok {
		return "", fmt.Errorf("the line %s is missing", strings.TrimSpace(to))
	}
	return head + from + "\n" + text + "\n" + to + tail, nil
}
