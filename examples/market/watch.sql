SELECT sym, price, ts FROM trades WHERE sym = :sym AND NOT price BETWEEN :low AND :high
