package cm

// A bell wakes the goroutines that wait for a change of something that a lock guards. Callers hold the lock.
type bell struct{ c chan struct{} }

// wait returns the channel that the next ring closes.
func (b *bell) wait() <-chan struct{} {
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *bell) ring() {
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
