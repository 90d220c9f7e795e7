package local

import "unsafe"

// aligned returns the part of b that begins at a multiple of page.
func aligned(b []byte, page int) []byte {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return b[(uintptr(page)-at%uintptr(page))%uintptr(page):]
}
