//go:build !linux

package kproxy

import "math"

// maxMappings returns how many mappings of clients' memory a daemon makes.
func maxMappings() int64 { return math.MaxInt64 }
