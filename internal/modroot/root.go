// Package modroot finds the root of the module for tools and tests. Unlike runtime.Caller, it works with -trimpath.
package modroot

import (
	"errors"
	"os"
	"path/filepath"
)

// Find returns the module's root: the nearest folder from the working directory upwards that holds go.mod.
func Find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod in this folder or above")
		}
		dir = up
	}
}
