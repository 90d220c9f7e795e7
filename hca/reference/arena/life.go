package arena

// A Life is whether a queue of a user library exists. While a Destroy is in progress, verbs of the data path should
// fail as after it: the driver may give the memory to another queue before the library hears of the end. The library
// must not hold a lock meanwhile, because Destroy waits for callbacks, which may call such verbs. The lock of the queue
// guards a Life. The zero value is a queue that exists.
type Life struct {
	ending int // calls of Destroy in progress
	ended  bool
}

// IsOver reports whether the queue is destroyed, or is being destroyed.
func (l *Life) IsOver() bool { return l.ended || l.ending > 0 }

// Begin begins a Destroy.
func (l *Life) Begin() { l.ending++ }

// Finish ends a Destroy that has returned err. It reports whether that one has destroyed the queue: without a
// connection to the daemon, several succeed.
func (l *Life) Finish(err error) bool {
	l.ending--
	if err != nil || l.ended {
		return false
	}
	l.ended = true
	return true
}
