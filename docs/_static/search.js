// Functions and commands come before pages that mention them.
var Scorer = {
  objNameMatch: 40, objPartialMatch: 20, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, , , , score]) => score + (page.startsWith("reference/api/") ? 20 : 0),
};
