package document

import "testing"

func printed(s Screen, d Document) string {
	p := NewPage(s)
	p.Print(d)
	return p.String()
}

func TestADocumentWithoutAHeadlineBeginsAtTheEdge(t *testing.T) {
	d := Document{Sections: []Section{
		{Blocks: []Block{Note{Text: "3 removals"}}},
		{Blocks: []Block{Table{Columns: []Column{{Title: "removed"}, {Title: "max"}}, Rows: []Row{{Cells: []Cell{{Text: "node1"}, {Text: "190 ms"}}}}}}},
	}}
	want := "3 removals\n\nREMOVED  MAX\nnode1    190 ms\n"
	if got := printed(Screen{}, d); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	d.Headline, d.Badge = "all followed", "PASS"
	want = " PASS  all followed\n\n 3 removals\n\n REMOVED  MAX\n node1    190 ms\n"
	if got := printed(Screen{}, d); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestASectionWithAColumnHasItsBlocksBelowItsTitle(t *testing.T) {
	want := `MAY-LOSE   LP05 no-prestop
           requests fail
           why  no preStop, and this line is
                too long

NOT JUDGED
  LP02 one-node
`
	if got := printed(Screen{Width: 45}, Document{Sections: []Section{
		{Title: "may-lose", Remark: "LP05 no-prestop", Column: 11, Blocks: []Block{Note{Text: "requests fail"}, Note{Label: "why", Text: "no preStop, and this line is too long"}}},
		{Title: "not judged", Column: 2, Blocks: []Block{Note{Text: "LP02 one-node"}}},
	}}); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestASectionWithoutBlocksIsLeftOut(t *testing.T) {
	d := Document{Sections: []Section{{Title: "empty"}, {Title: "said", Blocks: []Block{Note{Text: "something"}}}}}
	if got, want := printed(Screen{}, d), "SAID  something\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
