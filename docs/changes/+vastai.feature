**Vastai.** `hami-vastai` places pods on Vastai accelerators: whole cards, or dies that are on as few cards as possible. Under
`mutex` a card with a die in use is closed.
