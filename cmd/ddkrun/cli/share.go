package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// The choices of --share-memory.
const (
	shareAuto   = "auto"   // where programs do not notice it
	shareAlways = "always" // wherever it is possible
	shareNever  = "never"
)

// shareChoices are the values of --share-memory.
var shareChoices = []string{shareAuto, shareAlways, shareNever}

// envShare is the environment variable with the choice. Programs inherit it, also those that are ddkrun.
const envShare = "DDKRUN_SHARE_MEMORY"

// envStock is the environment variable by which the library that programs preload works around no faults. Programs
// inherit it, too.
const envStock = "DDKRUN_STOCK"

// A shareFlag is the flag --share-memory. Without a value, it is shareAlways.
type shareFlag struct {
	choice string
	isBare bool // it was set without a value
}

// newShareFlag returns the flag with its default, which is that of the environment if it has one.
func newShareFlag() (*shareFlag, error) {
	s := &shareFlag{choice: shareAuto}
	if v := os.Getenv(envShare); v != "" {
		if err := s.Set(v); err != nil {
			return nil, fmt.Errorf("%s=%s: %w", envShare, v, err)
		}
	}
	return s, nil
}

// String returns the choice.
func (s *shareFlag) String() string { return s.choice }

// IsBoolFlag has package flag accept the flag without a value, which is then true.
func (*shareFlag) IsBoolFlag() bool { return true }

// Set sets the choice.
func (s *shareFlag) Set(v string) error {
	if s.isBare = v == "true"; s.isBare {
		v = shareAlways
	}
	if !slices.Contains(shareChoices, v) {
		return fmt.Errorf("want one of %s", strings.Join(shareChoices, ", "))
	}
	s.choice = v
	return nil
}
