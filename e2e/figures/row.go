// Package figures keeps what the benchmarks measure and makes the table, the data
// and the charts of docs/figures from it.
package figures

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// File names the environment variable that holds the file to which Add appends,
// and Smoke the one that asks for a run that only shows that everything works.
const (
	File  = "SALLYPORT_FIGURES"
	Smoke = "SALLYPORT_SHORT"
)

// Judge says which value of a row its bar and aim are for.
type Judge string

// The value is ours itself, ours divided by the alternative's, or the other way round.
const (
	Itself Judge = "itself"
	Ratio  Judge = "ratio"
	Times  Judge = "times"
)

// Row is one figure beside its alternative, or, with X, a growth curve.
type Row struct {
	Group       string    `json:"group"` // one chart
	Work        string    `json:"work"`  // unique in its group
	Unit        string    `json:"unit"`
	Alternative string    `json:"alternative,omitempty"`
	Ours        []float64 `json:"ours"`             // by round, or by X
	Theirs      []float64 `json:"theirs,omitempty"` // in the same rounds
	Judge       Judge     `json:"judge"`
	Less        bool      `json:"less,omitempty"` // less is better
	Bar         float64   `json:"bar,omitempty"`  // 0: none
	Aim         float64   `json:"aim,omitempty"`
	X           []float64 `json:"x,omitempty"`   // sizes of a growth curve
	Of          string    `json:"of,omitempty"`  // what X counts
	Made        string    `json:"made"`          // date
	Was         float64   `json:"was,omitempty"` // value of the run before, where it moved by more than the rounds spread
}

// Short reports whether this is a smoke run: few rounds, small sizes.
func Short() bool { return os.Getenv(Smoke) != "" }

// Pick returns full, or short in a smoke run.
func Pick[T any](full, short T) T {
	if Short() {
		return short
	}
	return full
}

// Add logs the row and appends it to the file that File names.
func Add(t testing.TB, r Row) {
	t.Helper()
	if len(r.Ours) == 0 || r.Judge != Itself && r.X == nil && len(r.Theirs) != len(r.Ours) {
		t.Errorf("%s, %s: %d rounds of ours, %d of the alternative", r.Group, r.Work, len(r.Ours), len(r.Theirs))
		return
	}
	t.Log(r.line())
	name := os.Getenv(File)
	if name == "" {
		return
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(data, '\n')); err != nil {
		t.Fatal(err)
	}
}

// values are what is judged, by round.
func (r Row) values() []float64 {
	values := slices.Clone(r.Ours)
	for i := range values {
		switch r.Judge {
		case Ratio:
			values[i] /= r.Theirs[i]
		case Times:
			values[i] = r.Theirs[i] / values[i]
		}
	}
	return values
}

// Value is the median of the rounds; of a growth curve, its exponent.
func (r Row) Value() float64 {
	if r.X != nil {
		return Exponent(r.X, r.Ours)
	}
	return Median(r.values())
}

// Spread returns the lowest and the highest value of the rounds, without the
// outermost of either end where there are seven or more.
func (r Row) Spread() (low, high float64) {
	if r.X != nil {
		return r.Value(), r.Value()
	}
	values := r.values()
	slices.Sort(values)
	if len(values) >= 7 {
		values = values[1 : len(values)-1]
	}
	return values[0], values[len(values)-1]
}

// Verdict says how the value stands to bar and aim: "aim", "bar", "missed" or "".
func (r Row) Verdict() string {
	v, holds := r.Value(), func(v, limit float64) bool { return v >= limit }
	if r.Less {
		holds = func(v, limit float64) bool { return v <= limit }
	}
	switch {
	case r.Bar == 0 && r.Aim == 0:
		return ""
	case r.Aim != 0 && holds(v, r.Aim):
		return "aim"
	case holds(v, cmp.Or(r.Bar, r.Aim)):
		return "bar"
	}
	return "missed"
}

// Median returns the middle one of the values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}

// Exponent is that of the power law that fits y over x best: 0 stays the same, 1
// grows as x does.
func Exponent(x, y []float64) float64 {
	var n, sx, sy, sxx, sxy float64
	for i := range x {
		if x[i] <= 0 || y[i] <= 0 {
			continue
		}
		lx, ly := math.Log(x[i]), math.Log(y[i])
		n, sx, sy, sxx, sxy = n+1, sx+lx, sy+ly, sxx+lx*lx, sxy+lx*ly
	}
	if n < 2 || n*sxx == sx*sx {
		return 0
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

func (r Row) line() string {
	low, high := r.Spread()
	if r.X != nil {
		return fmt.Sprintf("%s: %s: %s over %s: exponent %.2f", r.Group, r.Work, points(r), r.Of, r.Value())
	}
	return fmt.Sprintf("%s: %s: ours %s, alternative %s, value %s (%s to %s) %s", r.Group, r.Work,
		amount(Median(r.Ours), r.Unit), theirs(r), number(r.Value()), number(low), number(high), r.Verdict())
}
