# Makes r_values.toml: what R says of small data sets, to hold the analyses against.
#     Rscript tests/reference/r_values.R > tests/reference/r_values.toml
# Needs R with survival and MASS (both come with R) and sandwich. Data: R's own, of its packages
# datasets, survival and MASS (part of R, GPL-2 | GPL-3); where each is from is beside it.
suppressPackageStartupMessages({library(survival); library(MASS); library(sandwich)})
show <- function(x) {
  text <- if (is.character(x)) paste0('"', x, '"')
          else if (is.logical(x)) tolower(as.character(x))
          else sub("^(-?\\d+)$", "\\1", formatC(x, digits = 16, format = "g", width = 1), perl = TRUE)
  ifelse(is.na(x), "nan", text)
}
section <- function(name, call, ...) {
  cat("\n[", name, "]\nsource = \"", call, "\"\n", sep = "")
  values <- list(...)
  for (key in names(values)) {
    value <- show(unname(values[[key]]))
    if (length(value) > 1 || inherits(values[[key]], "AsIs")) {
      value <- paste0("[\n", paste(strwrap(paste0(paste(value, collapse = ", "), ","), 96,
                      indent = 4, exdent = 4), collapse = "\n"), "\n]")
    }
    cat(key, " = ", value, "\n", sep = "")
  }
}
cat("# Made by r_values.R with ", R.version.string, "; survival ", format(packageVersion("survival")),
    ", MASS ", format(packageVersion("MASS")), ", sandwich ", format(packageVersion("sandwich")),
    ".\n# source is the call each section is of.\n", sep = "")

# --- correlation: attitude (Chatterjee and Price, 1977) has ties, hunter (help of cor.test) none
hunter <- list(x = c(44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1),
               y = c(2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8))
tied <- list(x = mtcars$hp, y = mtcars$carb)
for (name in c("hunter", "tied")) {
  d <- get(name)
  p <- cor.test(d$x, d$y)
  s <- suppressWarnings(cor.test(d$x, d$y, method = "spearman", exact = FALSE))
  k <- suppressWarnings(cor.test(d$x, d$y, method = "kendall", exact = name == "hunter"))
  fine <- suppressWarnings(cor.test(d$x, d$y, method = "kendall", exact = FALSE))
  section(paste0("correlation_", name),
    paste0("cor.test(x, y, method); ", if (name == "tied") "mtcars hp, carb (Motor Trend, 1974); "
           else "help of cor.test; ", "Spearman exact = FALSE, Kendall exact = ",
           if (name == "hunter") "TRUE" else "FALSE"),
    x = d$x, y = d$y, pearson = p$estimate, pearson_p = p$p.value, pearson_low = p$conf.int[1],
    pearson_high = p$conf.int[2], spearman = s$estimate, spearman_p = s$p.value,
    kendall = k$estimate, kendall_p = k$p.value, kendall_asymptotic_p = fine$p.value)
}
jack <- function(x, y) {
  n <- length(x)
  z <- sapply(seq_len(n), function(i) atanh(cor(x[-i], y[-i])))
  sqrt((n - 1) / n * sum((z - mean(z))^2))
}
section("jackknife", "atanh(cor(x[-i], y[-i])) of each i; faithful, first 60 (Haerdle, 1991)",
  x = faithful$eruptions[1:60], y = faithful$waiting[1:60],
  r = cor(faithful$eruptions[1:60], faithful$waiting[1:60]),
  error = jack(faithful$eruptions[1:60], faithful$waiting[1:60]),
  error_of_exp = jack(exp(2 * faithful$eruptions[1:60]), exp(faithful$waiting[1:60] / 5)))

# --- adjusted p: the 15 of Benjamini and Hochberg, JRSS B 57 (1995), section 3.2
p <- c(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
       0.5719, 0.6528, 0.7590, 1.0000)
section("adjusted", "p.adjust(p, method); p of Benjamini and Hochberg, JRSS B 57 (1995), 3.2",
  pvalues = p, none = p.adjust(p, "none"), bonferroni = p.adjust(p, "bonferroni"),
  holm = p.adjust(p, "holm"), fdr_bh = p.adjust(p, "BH"), fdr_by = p.adjust(p, "BY"))

# --- groups
air <- na.omit(airquality[c("Ozone", "Month")])
k <- kruskal.test(Ozone ~ Month, data = air)
pairs <- combn(unique(air$Month), 2)
u <- apply(pairs, 2, function(m) wilcox.test(air$Ozone[air$Month == m[1]],
           air$Ozone[air$Month == m[2]], exact = FALSE, correct = FALSE)$p.value)
section("airquality", "kruskal.test(Ozone ~ Month); wilcox.test(exact = FALSE, correct = FALSE) of each pair, p.adjust holm; airquality without NA (Chambers et al., 1983)",
  ozone = air$Ozone, month = air$Month, statistic = k$statistic, df = k$parameter,
  pvalue = k$p.value, pair_pvalues = u, pair_holm = p.adjust(u, "holm"))
k <- kruskal.test(weight ~ group, data = PlantGrowth)
u <- pairwise.wilcox.test(PlantGrowth$weight, PlantGrowth$group, exact = FALSE, correct = FALSE,
                          p.adjust.method = "holm")$p.value
section("plant_growth", "kruskal.test(weight ~ group); pairwise.wilcox.test(exact = FALSE, correct = FALSE); PlantGrowth (Dobson, 1983)",
  weight = PlantGrowth$weight, group = as.character(PlantGrowth$group), statistic = k$statistic,
  df = k$parameter, pvalue = k$p.value, pair_holm = c(u[1, 1], u[2, 1], u[2, 2]))

# --- tables
party <- rbind(c(762, 327, 468), c(484, 239, 477))
t <- chisq.test(party)
section("party", "chisq.test; Agresti (2002), 2.4; V = sqrt(X2 / n)", first = party[1, ],
  second = party[2, ], statistic = t$statistic, df = t$parameter, pvalue = t$p.value,
  cramers_v = sqrt(t$statistic / sum(party)))
few <- rbind(c(4, 1, 6), c(2, 7, 3))
set.seed(1)
s <- chisq.test(few, simulate.p.value = TRUE, B = 999999)
section("few", "chisq.test(simulate.p.value = TRUE, B = 999999), seed 1; a made table",
  first = few[1, ], second = few[2, ], statistic = s$statistic, pvalue = s$p.value)
m <- mantelhaen.test(UCBAdmissions, correct = FALSE)
section("admissions", "mantelhaen.test(UCBAdmissions, correct = FALSE); Bickel, Hammel and O'Connell, Science 187 (1975); of each department admitted men, rejected men, admitted women, rejected women",
  cells = as.integer(UCBAdmissions), odds_ratio = m$estimate, ci_low = m$conf.int[1],
  ci_high = m$conf.int[2], pvalue = m$p.value)

# --- logistic regression; age stands in for a cluster
b <- birthwt
fit <- glm(low ~ lwt + smoke, binomial, b, control = list(epsilon = 1e-14, maxit = 50))
X <- model.matrix(fit); mu <- fitted(fit); w <- mu * (1 - mu); g <- as.integer(factor(b$age))
H <- crossprod(X, w * X); S <- rowsum(X * (b$low - mu), g); G <- max(g)
D <- t(sapply(seq_len(G), function(j) {
  Z <- X[g == j, , drop = FALSE]
  solve(H - crossprod(Z, w[g == j] * Z), S[j, ])
}))
R <- sapply(seq_len(G), function(j) coef(update(fit, data = b[g != j, ])))
section("birth_weight", "glm(low ~ lwt + smoke, binomial); vcovHC(type = 'HC1'); vcovCL(cluster = ~age, type = 'HC1'); linearised cluster jackknife (G - 1) / G sum d d', d = solve(H - H_g, s_g), and refitted without each age; birthwt of MASS (Hosmer and Lemeshow, 1989)",
  low = b$low, lwt = b$lwt, smoke = b$smoke, age = b$age, coefficient = coef(fit),
  odds_ratio = exp(coef(fit)), model_error = sqrt(diag(vcov(fit))),
  hc1_error = sqrt(diag(vcovHC(fit, type = "HC1"))),
  cluster_hc1_error = sqrt(diag(vcovCL(fit, cluster = ~age, type = "HC1"))),
  jackknife_error = sqrt((G - 1) / G * diag(crossprod(D))),
  refitted_error = sqrt((G - 1) / G * rowSums((R - coef(fit))^2)))

# --- ends of runs
v <- veteran[veteran$trt == 1, ]
s <- survfit(Surv(time, status) ~ 1, v, conf.type = "log-log")
has <- s$n.event > 0
section("veteran", "survfit(Surv(time, status) ~ 1, conf.type = 'log-log'); veteran, trt 1 (Kalbfleisch and Prentice, 1980)",
  time = v$time, status = v$status, at = s$time[has], n_risk = s$n.risk[has], survival = s$surv[has],
  std_error = (s$surv * s$std.err)[has], low = s$lower[has], high = s$upper[has],
  median = quantile(s, 0.5)$quantile, median_low = quantile(s, 0.5)$lower,
  median_high = quantile(s, 0.5)$upper)
for (arm in levels(aml$x)) {
  a <- aml[aml$x == arm, ]
  s <- survfit(Surv(time, status) ~ 1, a, conf.type = "log-log")
  has <- s$n.event > 0
  section(paste0("aml_", tolower(arm)), paste0("survfit(Surv(time, status) ~ 1, conf.type = 'log-log'); aml, x ", arm, " (Miller, 1981)"),
    time = a$time, status = a$status, at = s$time[has], n_risk = s$n.risk[has],
    survival = s$surv[has], std_error = (s$surv * s$std.err)[has], median = quantile(s, 0.5)$quantile)
}
m <- mgus2[1:80, ]
time <- ifelse(m$pstat == 1, m$ptime, m$futime)
end <- factor(ifelse(m$pstat == 1, 1, 2 * m$death), 0:2, c("running", "completed", "failed"))
s <- survfit(Surv(time, end) ~ 1, conf.type = "log-log")
has <- rowSums(s$n.event[, -1]) > 0
section("mgus2", "survfit(Surv(time, end) ~ 1, conf.type = 'log-log'), Aalen and Johansen's; mgus2, first 80, progression (completed) and death (failed) (Kyle et al., NEJM 346, 2002)",
  time = time, end = as.character(end), at = s$time[has],
  completed = s$pstate[has, 2], completed_error = s$std.err[has, 2],
  failed = s$pstate[has, 3], failed_error = s$std.err[has, 3])

# rows that enter when others end, as jobs do that started before a window
h <- heart
h$transplanted <- as.integer(h$transplant == 1)
f <- coxph(Surv(start, stop, event) ~ age + surgery + transplanted, h)
section("heart", "coxph(Surv(start, stop, event) ~ age + surgery + transplant); heart (Crowley and Hu, JASA 72, 1977)",
  start = h$start, stop = h$stop, event = h$event, age = h$age, surgery = h$surgery,
  transplanted = h$transplanted, coefficient = coef(f), std_error = sqrt(diag(vcov(f))))

# --- clusters on a line, a series, distributions
k <- lapply(2:5, function(k) { set.seed(k); kmeans(rivers, k, iter.max = 100, nstart = 500) })
section("rivers", "kmeans(rivers, k, nstart = 500), k 2 to 5 (McNeil, 1977)", values = rivers,
  within = sapply(k, function(one) one$tot.withinss),
  smallest = sapply(k, function(one) one$size[which.min(one$centers)]))
section("lh", "acf(lh, lag.max = 12); lh (Diggle, 1990)", values = as.numeric(lh),
  autocorrelation = acf(lh, lag.max = 12, plot = FALSE)$acf[-1])
tight <- list(reltol = 1e-14, maxit = 10000)
x <- veteran$time
for (name in c("lognormal", "exponential")) {
  f <- fitdistr(x, name)
  section(paste0("fit_", name), paste0("fitdistr(veteran$time, '", name, "')"), estimate = I(f$estimate),
          std_error = I(f$sd), log_likelihood = f$loglik)
}
for (name in c("gamma", "weibull")) {
  # in units near 1, where the search is well conditioned; rate to scale by hand
  f <- fitdistr(x / 100, name, control = tight)
  theta <- if (name == "gamma") c(f$estimate["shape"], scale = unname(100 / f$estimate["rate"]))
           else c(f$estimate["shape"], 100 * f$estimate["scale"])
  section(paste0("fit_", name), paste0("fitdistr(veteran$time / 100, '", name, "', control = list(reltol = 1e-14)), in the unit of time; shape, scale"),
          estimate = theta, shape_error = f$sd["shape"],
          log_likelihood = f$loglik - length(x) * log(100))
}
section("fit_values", "veteran$time (Kalbfleisch and Prentice, 1980)", values = x)
