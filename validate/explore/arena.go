//go:build !race || !unix

package explore

import "ciddk/ci"

// pages returns n bytes that begin at a page.
func pages(n int) []byte {
	const page = 4096
	b := make([]byte, n+page)
	skip := int(-ci.Bytes(b).Addr() & (page - 1))
	return b[skip : skip+n : skip+n]
}
