//go:build !linux

package kproxy

import "math"

// maxFiles returns how many descriptors a daemon has for objects of clients.
func maxFiles() int64 { return math.MaxInt64 }

// maxMappings returns how many mappings of clients' memory a daemon makes.
func maxMappings() int64 { return math.MaxInt64 }
