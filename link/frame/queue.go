package frame

import "sync"

// maxQueue is the most bytes of frames that wait in a queue. Further frames are dropped.
const maxQueue = 16 << 20

// A batch is frames in one piece of memory.
type batch struct {
	bytes []byte
	ends  []int // of the frames in bytes
	list  [][]byte
}

func (b *batch) reset() { b.bytes, b.ends = b.bytes[:0], b.ends[:0] }

// end marks the end of a frame that was appended to bytes.
func (b *batch) end() { b.ends = append(b.ends, len(b.bytes)) }

// add copies a frame into the batch.
func (b *batch) add(frame []byte) {
	b.bytes = append(b.bytes, frame...)
	b.end()
}

// frames returns the frames. They are valid until the next change.
func (b *batch) frames() [][]byte {
	b.list = b.list[:0]
	at := 0
	for _, end := range b.ends {
		b.list = append(b.list, b.bytes[at:end:end])
		at = end
	}
	return b.list
}

// A queue passes frames to a goroutine of its own. It allocates only while it grows.
type queue struct {
	mu     sync.Mutex
	wake   sync.Cond
	in     *batch
	closed bool
	done   chan struct{} // closed when the goroutine has ended; nil before start
}

func newQueue() *queue {
	q := &queue{in: new(batch)}
	q.wake.L = &q.mu
	return q
}

// start starts the goroutine, which calls deliver.
func (q *queue) start(deliver func(frames [][]byte)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.done != nil {
		return
	}
	q.done = make(chan struct{})
	go q.run(deliver, q.done)
}

func (q *queue) run(deliver func(frames [][]byte), done chan struct{}) {
	defer close(done)
	out := new(batch)
	for {
		q.mu.Lock()
		for len(q.in.ends) == 0 && !q.closed {
			q.wake.Wait()
		}
		if q.closed {
			q.mu.Unlock()
			return
		}
		q.in, out = out, q.in
		q.mu.Unlock()
		deliver(out.frames())
		out.reset()
	}
}

// put adds frames, and returns how many were dropped.
func (q *queue) put(frames [][]byte) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.done == nil {
		return len(frames)
	}
	for _, f := range frames {
		if len(f) == 0 || len(f) > MaxFrame || len(q.in.bytes)+len(f) > maxQueue {
			dropped++
			continue
		}
		q.in.add(f)
	}
	q.wake.Signal()
	return dropped
}

// close ends the goroutine. Frames that wait are dropped. It must not be called from deliver.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.wake.Broadcast()
	done := q.done
	q.mu.Unlock()
	if done != nil {
		<-done
	}
}
