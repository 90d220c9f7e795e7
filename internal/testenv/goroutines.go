package testenv

import "runtime"

// NumGoroutine returns the number of goroutines at one moment. runtime.NumGoroutine takes no lock. It also counts up to
// 32 goroutines that have ended, while the runtime moves their memory from a processor to the others.
func NumGoroutine() int {
	for size := runtime.NumGoroutine() + 64; ; size *= 2 {
		if n, ok := runtime.GoroutineProfile(make([]runtime.StackRecord, size)); ok {
			return n
		}
	}
}
