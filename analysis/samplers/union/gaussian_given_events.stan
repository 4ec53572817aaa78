// A Gaussian given that at least one of some events happens; an event is an intersection of
// half-spaces. `theta` holds blocks of equally many coordinates; each half-space is about one.
data {
  int<lower=1> D;                           // coordinates
  int<lower=1> B;                           // blocks, and half-spaces of an event
  int<lower=1> E;                           // events
  vector[D] center;
  matrix[D, D] root;                        // lower Cholesky factor of the covariance
  array[E, B] int<lower=0, upper=1> asked;  // whether the half-space binds
  array[E, B] vector[D] normal;
  array[E, B] real limit;                   // normal' * theta >= limit
  int<lower=0, upper=1> bounded;
  vector<lower=0>[B] radius;                // of each block, if bounded
}
parameters {
  vector[D] theta;
}
model {
  int inside = 0;
  theta ~ multi_normal_cholesky(center, root);
  for (e in 1 : E) {
    int all_held = 1;
    for (b in 1 : B) {
      if (asked[e, b] && dot_product(normal[e, b], theta) < limit[e, b]) {
        all_held = 0;
      }
    }
    if (all_held) {
      inside = 1;
    }
  }
  if (bounded) {
    for (b in 1 : B) {
      if (norm2(theta[((b - 1) * D) %/% B + 1 : (b * D) %/% B]) > radius[b]) {
        inside = 0;
      }
    }
  }
  if (!inside) {
    target += negative_infinity();
  }
}
