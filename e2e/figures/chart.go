package figures

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Sizes of a chart, in user units of SVG.
const (
	width     = 760
	rowHeight = 44
	curveHigh = 164
	left      = 20
)

// Chart draws a group: a pair of bars for each row, each pair to its own scale, and a
// line with logarithmic axes for each growth curve.
func Chart(group string, rows []Row) string {
	var b strings.Builder
	y := 40
	for _, r := range rows {
		if r.X != nil {
			y = drawCurve(&b, r, y)
		} else {
			y = drawBars(&b, r, y)
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">
<title>%s</title>
<rect width="%[1]d" height="%[2]d" fill="#ffffff"/>
<text x="%[4]d" y="22" font-size="16" fill="#1f2328">%[3]s</text>
%[5]s</svg>
`, width, y+10, html.EscapeString(group), left, b.String())
}

func drawBars(b *strings.Builder, r Row, y int) int {
	ours, other := Median(r.Ours), 0.0
	if len(r.Theirs) > 0 {
		other = Median(r.Theirs)
	} else if r.Judge == Itself {
		other = r.Bar
	}
	most := max(ours, other, 1e-9)
	write(b, left, y+10, "#1f2328", r.Work)
	bar(b, y+15, ours/most, "#1f6feb", "ours "+amount(ours, r.Unit))
	if other == 0 {
		return y + rowHeight - 12
	}
	name := cmp.Or(r.Alternative, "bar")
	if len(r.Theirs) == 0 {
		name = "bar"
	}
	bar(b, y+27, other/most, "#afb8c1", name+" "+amount(other, r.Unit))
	return y + rowHeight
}

func bar(b *strings.Builder, y int, part float64, colour, text string) {
	length := max(1, int(part*400))
	fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"10\" fill=\"%s\"/>\n", left, y, length, colour)
	write(b, left+length+6, y+9, "#57606a", text)
}

func drawCurve(b *strings.Builder, r Row, y int) int {
	write(b, left, y+10, "#1f2328", fmt.Sprintf("%s, over %s: exponent %.2f", r.Work, r.Of, r.Value()))
	top, bottom := float64(y+36), float64(y+curveHigh-24)
	low, high := math.Log(max(slices.Min(r.Ours), 1e-9)), math.Log(max(slices.Max(r.Ours), 1e-9))
	if high-low < 0.7 { // what stays the same shall look like it
		middle := (low + high) / 2
		low, high = middle-0.35, middle+0.35
	}
	from, to := math.Log(r.X[0]), math.Log(r.X[len(r.X)-1])
	var line []string
	for i, x := range r.X {
		px := left + 60 + (math.Log(x)-from)/max(to-from, 1e-9)*520
		py := bottom - (math.Log(max(r.Ours[i], 1e-9))-low)/(high-low)*(bottom-top)
		line = append(line, fmt.Sprintf("%.0f,%.0f", px, py))
		fmt.Fprintf(b, "<circle cx=\"%.0f\" cy=\"%.0f\" r=\"3\" fill=\"#1f6feb\"/>\n", px, py)
		write(b, int(px)-10, int(py)-6, "#57606a", amount(r.Ours[i], r.Unit))
		write(b, int(px)-10, int(bottom)+16, "#57606a", number(x))
	}
	fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"#1f6feb\"/>\n", strings.Join(line, " "))
	return y + curveHigh
}

func write(b *strings.Builder, x, y int, colour, text string) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", x, y, colour, html.EscapeString(text))
}
