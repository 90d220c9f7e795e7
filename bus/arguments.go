package bus

import (
	"errors"
	"fmt"
	"os"
)

// maxDMA is the largest size of DMA memory that AllocDMA accepts. It is far above any real one, and below the sizes at
// which rounding would overflow.
const maxDMA = 1 << 40

// DMASize returns the size of AllocDMA's memory, for back ends: size as a whole number of pages.
func DMASize(size int) (int, error) {
	if size <= 0 || size > maxDMA {
		return 0, fmt.Errorf("bus: %d bytes of DMA memory (1 to %d are possible)", size, maxDMA)
	}
	page := os.Getpagesize()
	return (size + page - 1) / page * page, nil
}

// CheckVectors checks the arguments of EnableVectors, for back ends. available is the function's number of vectors.
// Errors: ErrNoVectors.
func CheckVectors(n, available int, fn func(vector int)) error {
	switch {
	case n < 0 || n > available:
		return fmt.Errorf("%w: %d of %d", ErrNoVectors, n, available)
	case n > 0 && fn == nil:
		return errors.New("bus: EnableVectors without a function")
	}
	return nil
}

// maxRemote is the most bytes of one piece of remote memory.
const maxRemote = 1 << 40

// Pages returns the pages of memory for MapDMA, for back ends whose devices access memory through a Map. See function
// Pages.
func (m *Memory) Pages() (offset, size uint64, err error) {
	if m.Remote == nil {
		return Pages(m.Bytes)
	}
	page := uint64(os.Getpagesize())
	if m.Length == 0 || m.Length > maxRemote || m.PageOffset >= page || m.Bytes != nil {
		return 0, 0, fmt.Errorf("%w: %d bytes of remote memory at offset %d of a page", ErrNotMappable, m.Length,
			m.PageOffset)
	}
	return m.PageOffset, (m.PageOffset + m.Length + page - 1) / page * page, nil
}

// Pages returns the pages of memory for MapDMA, for back ends: the offset of the first byte in its page, and the size
// of all pages. Errors: ErrNotMappable for no memory.
func Pages(b []byte) (offset, size uint64, err error) {
	if len(b) == 0 {
		return 0, 0, fmt.Errorf("%w: it is empty", ErrNotMappable)
	}
	page := uint64(os.Getpagesize())
	offset = address(b) % page
	return offset, (offset + uint64(len(b)) + page - 1) / page * page, nil
}
