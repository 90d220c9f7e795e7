package validate

// Layer is something that can stand between the certifier and a driver, such as the access layer. It is a driver
// itself.
type Layer struct {
	Name        string // lower case letters and digits
	Description string // one line
	// Over returns a driver whose targets are those of d behind the layer.
	Over func(d Driver) Driver
}
