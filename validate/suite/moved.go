package suite

import (
	_ "embed" // for the table

	"ciddk/validate"
)

//go:embed moved.txt
var movedTable string

// moved returns the cases that left the catalog. A test checks that their successors exist.
func moved() validate.Suite {
	list, err := validate.ParseMoved(movedTable)
	if err != nil {
		panic("suite: " + err.Error())
	}
	return validate.Suite{Name: "moved", Moved: list}
}
